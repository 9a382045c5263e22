"""Other readings of the paper, of `examples/readings.py`: what each changes, and what it leaves."""

import copy
import math
from pathlib import Path

import pytest
import torch
from torch import nn

from nets import confirmed
from swr.methods import SWR, registry

ROOT = Path(__file__).parents[2]


@pytest.fixture
def reading(monkeypatch):
    """A reading by its name, as the bench finds it."""
    monkeypatch.syspath_prepend(ROOT)
    return lambda name: registry.find(f"examples.readings:{name}")


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(200, 100), nn.ReLU(), nn.Linear(100, 10))


def test_unscaled_biases_scale_weights_as_swr_does_and_nothing_else(model, reading):
    twin, x = copy.deepcopy(model), torch.randn(4, 200)
    ours, theirs = reading("UnscaledBiases")(model, x, coefficient=0.1), SWR(twin, x, coefficient=0.1)
    confirmed(theirs.rescaler)
    for net in (model, twin):
        with torch.no_grad():
            [p.mul_(2) for p in net.parameters()]
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    ours.step()
    theirs.step()
    for name, p in model.named_parameters():
        if "bias" in name:
            assert torch.equal(p, before[name])
            assert not torch.equal(twin.get_parameter(name), before[name])
        else:
            torch.testing.assert_close(p, 0.95 * before[name])
            torch.testing.assert_close(p, twin.get_parameter(name))


def test_unscaled_biases_go_on_from_their_saved_anchors(model, reading):
    first = reading("UnscaledBiases")(model)
    with torch.no_grad():
        [p.mul_(2) for p in model.parameters()]
    second = reading("UnscaledBiases")(model)
    assert not torch.equal(torch.stack(first.anchors), torch.stack(second.anchors))
    second.load_state_dict(first.state_dict())
    assert torch.equal(torch.stack(first.anchors), torch.stack(second.anchors))


@pytest.mark.parametrize("name", ["HeInit", "HeInitSWR"])
def test_he_init_draws_by_the_seed_alone(model, reading, name):
    x, before = torch.randn(4, 200), model[0].weight.detach().clone()
    reading(name)(model, x, seed=3)
    first = model[0].weight.detach().clone()
    assert not torch.equal(first, before)
    assert float(first.std()) == pytest.approx(math.sqrt(2 / 200), rel=0.02)
    assert not model[2].bias.any()
    reading(name)(model, x, seed=3)
    assert torch.equal(model[0].weight, first)
    reading(name)(model, x, seed=4)
    assert not torch.equal(model[0].weight, first)


def test_swr_from_he_init_is_anchored_there(model, reading):
    method = reading("HeInitSWR")(model, torch.randn(4, 200))
    assert method.rescaler.norms()["0.weight"] == pytest.approx(float(model[0].weight.detach().norm()))
    assert all(c == pytest.approx(1) for c in method.rescaler.scalers().values())
