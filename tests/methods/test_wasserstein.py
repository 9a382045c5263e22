"""Wasserstein: sorted entries against numpy and the formula written out."""

import pytest
import torch
from torch import nn

from swr import methods
from swr.methods.wasserstein import matched

from .penalty_helpers import close, double, gradients, linear, moved


def test_wasserstein_matches_the_sorted_entries():
    layer = linear([[0.0, 1.0, 5.0]])
    method = methods.Wasserstein(layer, coefficient=0.5)
    layer.weight.data = torch.tensor([[3.0, 1.0, 2.0]])
    penalty = method.penalty()
    assert penalty.item() == 0.5 * 6
    penalty.backward()
    assert (layer.weight.grad / 0.5).tolist() == [[-4.0, 2.0, 2.0]]


def test_wasserstein_of_any_permutation_is_zero():
    layer = nn.Conv2d(3, 4, 3)
    method = methods.Wasserstein(layer)
    layer.weight.data = layer.weight.data.flatten()[torch.randperm(layer.weight.numel())].view_as(layer.weight)
    assert method.value().item() == 0
    layer.weight.data[0, 0, 0, 0] += 1
    assert method.value().item() > 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_entries_are_matched_in_their_order_whatever_their_precision(dtype: torch.dtype):
    values = torch.cat([torch.randn(2000), torch.tensor([0.0, -0.0, 1e-42, -1e-42, 1e30, -1e30, torch.inf, -torch.inf])])
    values = values.to(dtype)
    targets = torch.arange(len(values), dtype=torch.float64)
    assert torch.equal(values[matched(values, targets).argsort()], values.sort().values)


@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize("network", ["mlp", "cnnbn"])
def test_wasserstein_equals_the_formula_with_its_gradient_and_never_exceeds_l2_init(network: str, reduction: str):
    model = double(network)
    initial = [p.detach().clone() for p in model.parameters()]
    method = methods.Wasserstein(model, coefficient=1.0, reduction=reduction)
    moved(model)
    literal = 0.0
    for p, p0 in zip(model.parameters(), initial, strict=True):
        squares = (p.reshape(-1).sort().values - p0.reshape(-1).sort().values).square()
        literal = literal + (squares.sum() if reduction == "sum" else squares.mean())
    value = method.value()
    close(value, literal)
    for one, other in zip(gradients(value, model), gradients(literal, model), strict=True):
        close(one, other)
    distance = sum((p - p0).square().sum() for p, p0 in zip(model.parameters(), initial, strict=True))
    assert reduction == "mean" or 0 < value < distance
