"""Norms, their ratio to the anchors, and balance: values by hand, and the rescaler's anchors."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import swr
from nets import cnn_bn, confirmed, inputs_of, make, mlp
from swr.diagnostics import anchors_of, balance, layer_norms, layer_weights, norm_ratios


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
    rescaler = swr.SoftWeightRescaling(model, inputs_of(model), coefficient=1e-3)
    anchors = anchors_of(rescaler)
    assert anchors == layer_norms(model)
    model[0].weight.data *= 3
    ratios = norm_ratios(layer_norms(model), anchors)
    assert ratios.pop("0.weight") == pytest.approx(3)
    assert list(ratios.values()) == pytest.approx([1] * 5)


def test_anchors_follow_a_rebase():
    model = make(mlp)
    rescaler = swr.SoftWeightRescaling(model, inputs_of(model), coefficient=1e-3)
    model[0].weight.data *= 3
    assert anchors_of(rescaler) != layer_norms(model)
    rescaler.rebase()
    assert anchors_of(rescaler) == layer_norms(model)


def test_a_weight_that_was_zero_has_no_anchor():
    model = make(mlp)
    model[2].weight.data.zero_()
    anchors = anchors_of(swr.SoftWeightRescaling(model, inputs_of(model), coefficient=1e-3))
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
