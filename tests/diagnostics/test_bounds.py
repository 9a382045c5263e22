"""The limit of Theorem 2: values by hand, its worst case, and the weights for which it is claimed."""

import math

import pytest
import torch
from torch import nn

import swr
from nets import inputs_of, make, mlp
from swr.diagnostics import anchors_of, layer_norms, norm_limit, norm_limits, slack, squared_changes


def test_the_limit_by_hand():
    assert squared_changes({"a": 3.0, "b": 2.0}, {"a": 5.0, "b": 1.0}) == {"a": 16.0, "b": 3.0}
    assert norm_limit(16.0, 0.5, 3.0) == 11.0
    assert slack({"a": 11.0}, {"a": 5.0}) == {"a": 6.0}
    # two steps of 4 each, then a pull of 1 - 0.5^2
    assert norm_limit(16.0, 0.5, 3.0, every=2) == pytest.approx(2 * 4 / 0.75 + 3)
    assert norm_limit(16.0, 0.0, 3.0) == math.inf


@pytest.mark.parametrize(("change", "coefficient", "every"), [(-1, 0.5, 1), (1, 2, 1), (1, 0.5, 0)])
def test_a_limit_of_nonsense_is_refused(change, coefficient, every):
    with pytest.raises(swr.OptionError):
        norm_limit(change, coefficient, 1.0, every)


@pytest.mark.parametrize("every", [1, 3])
def test_the_limit_is_reached_by_the_worst_updates_and_not_exceeded(every):
    """Growth by exactly √B from a large weight on is the theorem's worst case: the norm before a pull tends to B'."""
    coefficient, anchor, growth = 0.1, 2.0, 0.5
    pull = 1 - (1 - coefficient) ** every
    norm = anchor
    limit = norm_limit(growth**2, coefficient, anchor, every)
    for _ in range(400):
        norm += every * growth
        assert norm <= limit * (1 + 1e-12)
        norm = pull * anchor + (1 - pull) * norm
    assert norm + every * growth == pytest.approx(limit)


def test_limits_come_from_the_rescalers_own_coefficients_and_anchors():
    model = make(mlp)
    rescaler = swr.SoftWeightRescaling(model, inputs_of(model), coefficient={"0.*": 0.5, "2.*": 0.0, "*": 0.25}, every=2)
    anchors = anchors_of(rescaler)
    limits = norm_limits(rescaler, dict.fromkeys(anchors, 4.0))
    assert limits["0.weight"] == pytest.approx(2 * 2 / 0.75 + anchors["0.weight"])
    assert limits["4.weight"] == pytest.approx(2 * 2 / (1 - 0.75**2) + anchors["4.weight"])
    assert limits["2.weight"] == math.inf


def test_no_limit_is_claimed_for_coupled_or_held_weights():
    class Residual(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c, self.d = (nn.Linear(4, 4) for _ in range(4))

        def forward(self, x):
            x = self.a(x)
            x = x + self.b(torch.relu(x))
            return self.d(nn.functional.gelu(self.c(x)))

    model = make(Residual)
    rescaler = swr.SoftWeightRescaling(model, torch.randn(2, 4, dtype=torch.float64))
    kinds = {*rescaler.plan.coupled, *rescaler.plan.held}
    limits = norm_limits(rescaler, dict.fromkeys(layer_norms(model), 1.0))
    assert kinds
    assert set(limits) == set(rescaler.plan.free)


def test_with_a_following_coefficient_the_limit_widens_as_the_rate_falls():
    model = make(mlp)
    rescaler = swr.SoftWeightRescaling(model, inputs_of(model), coefficient=0.1, on_lr_decay="follow")
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    rescaler.attach(optimizer)
    before = norm_limits(rescaler, {"0.weight": 1.0})["0.weight"]
    optimizer.param_groups[0]["lr"] = 0.1
    model(inputs_of(model)).sum().backward()
    optimizer.step()
    anchor = anchors_of(rescaler)["0.weight"]
    assert before == pytest.approx(1 / 0.1 + anchor)
    assert norm_limits(rescaler, {"0.weight": 1.0})["0.weight"] == pytest.approx(1 / 0.01 + anchor)
