"""A small task, and the plain loop that every framework's result is compared with."""

from functools import cache

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import swr

COEFFICIENT = 0.05
BATCH = 4
EXAMPLE = torch.zeros(1, 6)


def data(batches):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(batches * BATCH, 6, generator=generator)
    return TensorDataset(x, torch.randint(0, 3, (batches * BATCH,), generator=generator))


def loader(batches):
    return DataLoader(data(batches), batch_size=BATCH)


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.LayerNorm(12), nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 3))


@cache
def plan():
    """Of the network; made once, since tracing takes longer than training here."""
    return swr.analyze(network(), EXAMPLE)


def adam(model):
    return torch.optim.Adam(model.parameters(), lr=2e-2)


def plain(batches, *, accumulate=1, model=None, attach=True, context=None):
    """Train on each batch in turn, one step per ``accumulate`` of them; returns the model and the rescaler."""
    model = network() if model is None else model
    rescaler = swr.SoftWeightRescaling(model, plan=plan(), coefficient=COEFFICIENT)
    optimizer = adam(model)
    if attach:
        rescaler.attach(optimizer)
    advance(model, optimizer, batches, accumulate, context)
    return model, rescaler


def advance(model, optimizer, batches, accumulate=1, context=None):
    for k, (x, y) in enumerate(loader(batches), start=1):
        with context() if context is not None else torch.enable_grad():
            loss = nn.functional.cross_entropy(model(x), y)
        (loss / accumulate).backward()
        if k % accumulate == 0:
            optimizer.step()
            optimizer.zero_grad()


def steps(rescaler):
    """How many optimizer steps it has followed, one number for each optimizer."""
    return [part["steps"] for part in rescaler.state_dict()["optimizers"]]


def same(model, other):
    mine, theirs = model.state_dict(), other.state_dict()
    assert set(mine) == set(theirs)
    return all(torch.equal(mine[key], theirs[key]) for key in mine)
