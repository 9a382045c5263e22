"""Weight Rescaling against numpy and the example of its paper."""

import copy

import pytest
import torch
from torch import nn

from swr import methods

from .methods_table import changed
from .projection_helpers import close, double, grow, with_weight


@pytest.mark.parametrize(
    ("centred", "expected"),
    [(False, [[0.4472, 1.3416], [2.2361, 3.1305]]), (True, [[2.6584, 3.5528], [4.4472, 5.3416]])],
)
def test_weight_rescaling_returns_to_the_initial_deviation(centred: bool, expected: list[list[float]]):
    layer = with_weight([[-1.0, 1.0], [1.0, -1.0]])  # deviation 1
    method = methods.WeightRescaling(layer, centred=centred)
    layer.weight.data = torch.tensor([[1.0, 3.0], [5.0, 7.0]])
    method.step()
    close(layer.weight, expected, atol=1e-4)
    assert layer.weight.std(correction=0).item() == pytest.approx(1, rel=1e-6)


@pytest.mark.parametrize("per", ["layer", "channel"])
@pytest.mark.parametrize("network", ["cnnbn", "mlp"])
def test_weight_rescaling_equals_numpy_in_double_precision(per: str, network: str):
    model = double(network)
    initial = copy.deepcopy(model)
    method = methods.WeightRescaling(model, per=per, multiplier=0.7)
    grow(model)
    before = copy.deepcopy(model)
    method.step()
    for old, start, new in zip(before.modules(), initial.modules(), model.modules(), strict=True):
        if isinstance(new, (nn.Linear, nn.Conv2d)):
            w, w0 = (layer.weight.detach().numpy() for layer in (old, start))
            axes = tuple(range(0 if per == "layer" else 1, w.ndim))
            mean, s, s0 = w.mean(axes, keepdims=True), w.std(axes, keepdims=True), w0.std(axes, keepdims=True)
            close(new.weight, mean + 0.7 * s0 / s * (w - mean), 1e-12)
            assert torch.equal(new.bias, old.bias)
        elif isinstance(new, nn.BatchNorm2d):
            assert torch.equal(new.weight, old.weight)


def test_weight_rescaling_acts_at_every_nth_step_only():
    layer = nn.Linear(3, 3)
    method = methods.WeightRescaling(layer, every=3)
    grow(layer)
    before = layer.weight.detach().clone()
    method.step()
    method.step()
    assert torch.equal(layer.weight, before)
    method.step()
    assert not torch.equal(layer.weight, before)


@pytest.mark.parametrize("per", ["layer", "channel"])
def test_constant_and_single_weights_have_no_deviation_and_stay(per: str):
    model = nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 3), nn.Linear(3, 3), nn.Linear(3, 3))
    nn.init.constant_(model[2].weight, 0.5)
    method = methods.WeightRescaling(model, per=per)
    for layer in model:
        layer.weight.data += torch.randn_like(layer.weight)
    before = copy.deepcopy(model.state_dict())
    method.step()
    assert changed(before, model.state_dict()) == ({"1.weight", "3.weight"} if per == "layer" else {"3.weight"})
