"""NaP returns to the initial norm, and to the function where a normalisation follows."""

import pytest
import torch
from torch import nn

from swr import methods
from swr.methods.nap import joint_factor

from .projection_helpers import close, with_weight


def test_nap_returns_to_the_initial_norm():
    layer = with_weight([[1.5, 2.0]])
    method = methods.NaP(layer)
    layer.weight.data = torch.tensor([[3.0, 4.0]])
    method.step()
    close(layer.weight, [[1.5, 2.0]])


def test_nap_projects_gain_and_shift_together():
    layer = nn.BatchNorm1d(2)
    model = nn.Sequential(nn.Linear(2, 2), layer)
    method = methods.NaP(model, gains="project")
    layer.weight.data, layer.bias.data = torch.tensor([2.0, 2.0]), torch.tensor([1.0, 0.0])
    assert joint_factor(layer.weight, layer.bias).item() == pytest.approx(0.4714, abs=1e-4)
    method.step()
    close(layer.weight, [0.9428, 0.9428], atol=1e-4)
    close(layer.bias, [0.4714, 0.0], atol=1e-4)
    assert torch.cat([layer.weight, layer.bias]).norm().item() == pytest.approx(2**0.5)


def test_nap_pulls_gain_and_shift_to_one_and_zero():
    model = nn.Sequential(nn.Linear(3, 2), nn.LayerNorm(2), nn.RMSNorm(2))
    method = methods.NaP(model, decay=0.25)
    model[1].weight.data.fill_(3.0)
    model[1].bias.data.fill_(2.0)
    method.step()
    assert model[1].weight.tolist() == [2.5, 2.5]
    assert model[1].bias.tolist() == [1.5, 1.5]
    assert model[2].weight.tolist() == [1.0, 1.0]


def test_nap_keeps_the_function_where_normalisation_follows():
    model = nn.Sequential(nn.Linear(6, 8, bias=False), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 3)).double()
    method = methods.NaP(model, head=False)
    x = torch.randn(5, 6, dtype=torch.float64)
    norm = model[0].weight.norm().item()
    model[0].weight.data.mul_(7)
    before, weight = model(x), model[0].weight.detach().clone()
    method.step()
    assert model[0].weight.norm().item() == pytest.approx(norm, rel=1e-12)
    assert not torch.equal(model[0].weight, weight)
    torch.testing.assert_close(model(x), before, rtol=1e-3, atol=1e-4)  # LayerNorm's epsilon


def test_nap_leaves_what_began_at_zero_free():
    layer = nn.Linear(3, 2)
    nn.init.zeros_(layer.weight)
    method = methods.NaP(layer)
    layer.weight.data.fill_(1.0)
    method.step()
    assert layer.weight.tolist() == [[1.0] * 3] * 2
