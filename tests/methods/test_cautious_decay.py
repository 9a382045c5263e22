"""Cautious weight decay: only where the update shrinks."""

import pytest
import torch
from torch import nn

from swr import methods
from swr.errors import AttachError

from .anneal_helpers import entries, vector


def test_example():
    layer = vector(1.0, -2.0, 3.0)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    methods.CautiousDecay(layer, coefficient=0.5).attach(optimizer)
    layer.weight.grad = torch.tensor([[1.0, 1.0, 0.0]])
    optimizer.step()
    assert entries(layer) == [0.85, -2.1, 2.85]  # shrunk: decayed; grown: spared; not moved: decayed


def test_where_the_update_shrinks_everything_it_is_weight_decay():
    torch.manual_seed(0)
    plain = nn.Linear(4, 3)
    found = []
    for kind in (methods.WeightDecay, methods.CautiousDecay):
        layer = nn.Linear(4, 3)
        layer.load_state_dict(plain.state_dict())
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
        kind(layer, coefficient=0.5, parameters="all").attach(optimizer)
        for p in layer.parameters():
            p.grad = 0.1 * p.detach()
        optimizer.step()
        found.append([p.detach().clone() for p in layer.parameters()])
    for one, other in zip(*found, strict=True):
        assert torch.allclose(one, other, atol=1e-7)


def test_biases_are_spared_unless_asked_for():
    layer = nn.Linear(2, 2)
    before = layer.bias.detach().clone()
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    methods.CautiousDecay(layer, coefficient=0.5).attach(optimizer)
    weight = layer.weight.detach().clone()
    for p in layer.parameters():
        p.grad = torch.zeros_like(p)
    optimizer.step()
    assert torch.equal(layer.bias.detach(), before)
    assert torch.allclose(layer.weight.detach(), 0.95 * weight)


def test_it_needs_an_optimizer():
    with pytest.raises(AttachError, match="depends on the learning rate"):
        methods.CautiousDecay(vector(1.0)).before_step()
