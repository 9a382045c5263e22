"""What every penalty must do: count a weight once, in full precision, and leave frozen ones alone."""

import copy

import pytest
import torch
from torch import nn

from swr import methods
from swr.errors import OptionError

from ..methods_table import Tied
from ..penalty_helpers import moved

PENALTIES = ["wasserstein", "spectral-norm", "spectral", "parseval"]


@pytest.mark.parametrize("name", PENALTIES)
def test_a_tied_weight_counts_once(name: str):
    tied, plain = Tied(), nn.Sequential(nn.Linear(6, 6, bias=False), nn.Linear(6, 5))
    for model in (tied, plain):
        for p in model.parameters():
            p.data = torch.linspace(-1, 2, p.numel()).view(p.shape) if p.ndim > 1 else torch.zeros_like(p)
    values = []
    for model in (tied, plain):
        method = methods.build(name, model, coefficient=1.0)
        for p in model.parameters():
            p.data = p.data * (1.5 if p.ndim > 1 else 1.0)
        values.append(method.penalty().item())
    assert values[0] == pytest.approx(values[1], rel=1e-5)
    assert values[0] > 0


@pytest.mark.parametrize("name", [*PENALTIES, "effective-rank"])
def test_autocast_does_not_lower_the_precision_of_a_penalty(name: str):
    results = []
    for enabled in (True, False):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(16, 24), nn.Linear(24, 8))
        method = methods.build(name, model, coefficient=1.0)
        moved(model)
        x = torch.randn(5, 16)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            model(x)
            penalty = method.penalty()
        assert penalty.dtype is torch.float32
        results.append(penalty.item())
    rough = 1e-2 if name == "effective-rank" else 1e-7  # there the features themselves are bfloat16
    assert results[0] == pytest.approx(results[1], rel=rough)


@pytest.mark.parametrize("name", PENALTIES)
def test_frozen_weights_are_not_penalised(name: str):
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.Linear(4, 4))
    for p in model[0].parameters():
        p.requires_grad_(False)
    method = methods.build(name, model, coefficient=1.0)
    moved(model)
    before = method.penalty().item()
    for p in model[0].parameters():
        p.data += 10
    assert method.penalty().item() == pytest.approx(before, rel=0.05)


@pytest.mark.parametrize("name", PENALTIES)
def test_a_16_bit_network_is_measured_in_single_precision(name: str):
    model = nn.Sequential(nn.Linear(16, 24), nn.Linear(24, 8)).to(torch.bfloat16)
    single = copy.deepcopy(model).float()
    values = []
    for one in (model, single):
        method = methods.build(name, one, coefficient=1.0)
        for p in one.parameters():
            p.data.mul_(2)
        value = method.penalty()
        value.backward()
        values.append(value.item())
    assert values[0] == pytest.approx(values[1], rel=1e-5)
    assert model[0].weight.grad.dtype is torch.bfloat16


def test_the_input_projections_of_an_attention_count():
    attention = nn.MultiheadAttention(4, 2)
    method = methods.SpectralNorm(attention)
    assert list(method.state_dict()["vectors"]) == ["in_proj_weight", "out_proj.weight"]
    apart = nn.MultiheadAttention(4, 2, kdim=3, vdim=5)
    assert len(methods.SpectralNorm(apart).state_dict()["vectors"]) == 4


def test_wrong_options_are_said():
    layer = nn.Linear(2, 2)
    with pytest.raises(OptionError, match="reduction must be 'sum' or 'mean', found 'max'"):
        methods.Wasserstein(layer, reduction="max")
    with pytest.raises(OptionError, match="power k must be a whole number"):
        methods.Spectral(layer, power=1.5)
    with pytest.raises(OptionError, match="scale s must be a number above 0"):
        methods.Parseval(layer, scale=0)
