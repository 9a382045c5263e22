"""A small task and small networks for the tests of the diagnosis."""

import copy
import hashlib

import torch
import torch.nn.functional as F
from torch import nn

from swr.diagnostics.diagnosis.trial import Curve


def make():
    return nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4))


def fresh(seed):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make()


def batches(count=4, size=32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [(torch.randn(size, 12, generator=generator), torch.randint(4, (size,), generator=generator)) for _ in range(count)]


def trained(network, task, steps=600, lr=3e-3):
    network = copy.deepcopy(network)
    optimizer = torch.optim.Adam(network.parameters(), lr=lr, fused=True)
    for step in range(steps):
        x, y = task[step % len(task)]
        loss = F.cross_entropy(network(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return network


@torch.no_grad()
def silenced(network, layer, units):
    network = copy.deepcopy(network)
    network[layer].bias[:units] = -1e3
    return network


def curve(start, end, steps=100, reached=1.0):
    """A loss that falls evenly to its end during the first part of the steps."""
    fall = max(1, round(reached * steps))
    losses = [start + (end - start) * min(1.0, step / fall) for step in range(steps)]
    return Curve(tuple(losses), {"0.weight": 0.01})


def fingerprint(model):
    """Everything that a diagnosis might change: values, gradients, modes, versions, flags, and random states."""
    digest = hashlib.sha256()
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        digest.update(repr((name, tensor._version, tensor.requires_grad, id(tensor))).encode())
        digest.update(tensor.detach().numpy().tobytes())
        digest.update(b"" if tensor.grad is None else tensor.grad.numpy().tobytes())
    digest.update(repr([m.training for m in model.modules()]).encode())
    digest.update(torch.get_rng_state().numpy().tobytes())
    return digest.hexdigest()
