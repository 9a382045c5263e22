"""Norms, ratios, balance and the limit of Theorem 2: values by hand, the rescaler's anchors, and a real run."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import swr
from nets import cnn_bn, confirmed, inputs_of, make, mlp
from swr.diagnostics import (
    anchors_of,
    balance,
    layer_norms,
    layer_weights,
    norm_limit,
    norm_limits,
    norm_ratios,
    slack,
    squared_changes,
)


def two_layers():
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1))
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[1.0, 2.0], [2.0, 4.0]]))
        net[2].weight.copy_(torch.tensor([[6.0, 8.0]]))
    return net


def test_norms_by_hand():
    assert layer_norms(two_layers()) == {"0.weight": 5.0, "2.weight": 10.0}


def test_gains_and_attention_weights_are_layers_and_biases_are_not():
    names = list(layer_weights(nn.TransformerEncoderLayer(8, 2, 16)))
    assert "self_attn.in_proj_weight" in names
    assert "norm1.weight" in names
    assert not [name for name in names if "bias" in name]


def test_a_tied_weight_counts_once():
    net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    net[1].weight = net[0].weight
    assert list(layer_norms(net)) == ["0.weight"]


def test_ratios_are_one_at_the_anchors_and_follow_the_weights():
    model = make(cnn_bn)
    rescaler = swr.SoftWeightRescaling(model, inputs_of(model))
    anchors = anchors_of(rescaler)
    assert anchors == layer_norms(model)
    model[0].weight.data *= 3
    ratios = norm_ratios(layer_norms(model), anchors)
    assert ratios.pop("0.weight") == pytest.approx(3)
    assert list(ratios.values()) == pytest.approx([1] * 5)


def test_anchors_follow_a_rebase():
    model = make(mlp)
    rescaler = swr.SoftWeightRescaling(model, inputs_of(model))
    model[0].weight.data *= 3
    assert anchors_of(rescaler) != layer_norms(model)
    rescaler.rebase()
    assert anchors_of(rescaler) == layer_norms(model)


def test_a_weight_that_was_zero_has_no_anchor():
    model = make(mlp)
    model[2].weight.data.zero_()
    anchors = anchors_of(swr.SoftWeightRescaling(model, inputs_of(model)))
    assert set(anchors) == {"0.weight", "4.weight"}
    model[2].weight.data.fill_(1)
    assert set(norm_ratios(layer_norms(model), anchors)) == {"0.weight", "4.weight"}
    assert set(balance(layer_norms(model), anchors)) == {("4.weight", "0.weight")}


def test_balance_by_hand_puts_the_smaller_initial_norm_below():
    start, now = {"a": 4.0, "b": 2.0, "c": 1.0}, {"a": 6.0, "b": 2.0, "c": 4.0}
    # b <= a: |6/2 - 4/2|; c <= a: |6/4 - 4/1|; c <= b: |2/4 - 2/1|
    assert balance(now, start) == {("b", "a"): 1.0, ("c", "a"): 2.5, ("c", "b"): 1.5}


def test_balance_is_zero_at_the_start_and_under_a_common_factor():
    start = {"a": 4.0, "b": 2.0}
    assert balance(start, start) == {("b", "a"): 0.0}
    assert balance({"a": 8.0, "b": 4.0}, start) == {("b", "a"): 0.0}


positive = st.floats(1e-2, 1e2)


@given(start=st.tuples(positive, positive), now=st.tuples(positive, positive), coefficient=st.floats(0.01, 1))
@settings(derandomize=True, deadline=None, max_examples=50)
def test_a_rescale_never_lets_the_balance_grow(start, now, coefficient):
    model = nn.Sequential(nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)).double()
    for weight, value in zip(model.parameters(), start, strict=True):
        weight.data.fill_(value)
    rescaler = confirmed(swr.SoftWeightRescaling(model, coefficient=coefficient, plan=swr.chain(model)))
    for weight, value in zip(model.parameters(), now, strict=True):
        weight.data.fill_(value)
    (before,) = balance(layer_norms(model), anchors_of(rescaler)).values()
    rescaler.step()
    (after,) = balance(layer_norms(model), anchors_of(rescaler)).values()
    assert after <= before * (1 + 1e-9) + 1e-9


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
