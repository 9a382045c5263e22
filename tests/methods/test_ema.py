"""EMA: the average is evaluated, and training does not notice."""

import pytest
import torch
from torch import nn

from swr import methods, rescale
from swr.rescaling import SoftWeightRescaling

from .anneal_helpers import entries, vector


def test_example():
    layer = vector(1.0)
    method = methods.EMA(layer)
    for value, average in ((2.0, 1.9), (3.0, 2.8)):  # μ = 1/10: 0.1 + 1.8;  2/11: 1.9 * 2/11 + 3 * 9/11
        layer.weight.data.fill_(value)
        method.step()
        assert method.state_dict()["average"]["weight"].item() == pytest.approx(average)
        assert entries(layer) == [value]


def test_the_warm_up_ends_at_the_momentum():
    layer = vector(0.0)
    method = methods.EMA(layer, momentum=0.5)
    for _ in range(8):
        method.step()  # (1 + 8) / (10 + 8) = 1/2
    layer.weight.data.fill_(1.0)
    for average in (0.5, 0.75, 0.875):
        method.step()
        assert method.state_dict()["average"]["weight"].item() == average


def test_the_model_is_evaluated_with_the_average_and_trained_without():
    layer, one = vector(1.0), torch.ones(1, 1)
    method = methods.EMA(layer)
    layer.weight.data.fill_(2.0)
    method.step()
    assert layer.train()(one).item() == 2.0
    assert layer.eval()(one).item() == pytest.approx(1.9)
    assert entries(layer) == [2.0]
    with method.average():
        assert entries(layer) == [1.9]
    method.close()
    assert layer(one).item() == 2.0


def test_running_statistics_are_averaged_with_the_weights():
    model = nn.BatchNorm1d(1)
    method = methods.EMA(model)
    model.running_mean.fill_(10.0)
    model.num_batches_tracked.fill_(5)
    method.step()
    with method.average():
        assert model.running_mean.item() == pytest.approx(9.0)
        assert model.num_batches_tracked.item() == 5
    assert model.running_mean.item() == 10.0


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4)).double()


def from_proportional(method: methods.EMA, x: torch.Tensor) -> float:
    """How far the average's outputs are from a multiple of the model's, relative to their size."""
    with torch.no_grad():
        live = method.model(x)
        with method.average():
            slow = method.model(x)
    return float((slow - (slow * live).sum() / (live * live).sum() * live).norm() / slow.norm())


class TestUnderRescaling:
    """The average of weights in changing scales; what is measured here stands in the card."""

    def swr_at(self, factor: float, coefficient: float) -> tuple[SoftWeightRescaling, methods.EMA, torch.Tensor]:
        """A network whose norms are a factor above their anchors, and its average in full swing."""
        model, x = network(), torch.randn(64, 8, dtype=torch.float64)
        rescaler = SoftWeightRescaling(model, x, coefficient=coefficient)
        rescaler.load_state_dict(rescaler.state_dict())  # the anchors are meant
        rescale(model, rescaler.plan, dict.fromkeys(rescaler.plan.weights, factor))
        method = methods.EMA(model)
        method._steps = 10**6
        return rescaler, method, x

    def test_is_exact_while_training_makes_up_for_the_rescale(self):
        rescaler, method, x = self.swr_at(1.5, 1e-2)
        for _ in range(1000):
            grown = [p.detach().clone() for p in method.model.parameters()]
            rescaler.step()
            assert not torch.equal(grown[0], next(iter(method.model.parameters())))
            for p, value in zip(method.model.parameters(), grown, strict=True):
                p.data.copy_(value)
            method.step()
        assert from_proportional(method, x) < 1e-12

    def test_is_off_by_the_drift_of_the_norms_and_right_again_when_it_ends(self):
        rescaler, method, x = self.swr_at(2.0, 1e-2)
        worst = 0.0
        for _ in range(600):
            rescaler.step()
            method.step()
            worst = max(worst, from_proportional(method, x))
        assert 0.01 < worst < 0.1
        for _ in range(6000):
            rescaler.step()
            method.step()
        assert from_proportional(method, x) < 1e-4
