"""Layers of a network: linear ones, convolutions, tables, attention."""

from __future__ import annotations

from swr.algebra.flow import Flow
from swr.algebra.forms import ZERO, Scale, Value
from swr.algebra.rules.rulebook import aten


@aten("linear conv1d conv2d conv3d convolution conv_transpose1d conv_transpose2d conv_transpose3d")
def _layer(flow: Flow, input: Value, weight: Value, bias: Value | None) -> Scale:
    flow.weight(weight)
    return flow.same(Value(flow.product(input, weight)), bias)


@aten("bilinear")
def _bilinear(flow: Flow, input1: Value, input2: Value, weight: Value, bias: Value | None) -> Scale:
    flow.weight(weight)
    return flow.same(Value(flow.product(input1, input2, weight)), bias)


@aten("embedding")
def _embedding(flow: Flow, weight: Value) -> Scale:
    flow.weight(weight)
    return weight.form


@aten("embedding_bag _embedding_bag _embedding_bag_forward_only")
def _embedding_bag(flow: Flow, weight: Value, per_sample_weights: Value | None) -> Scale:
    flow.weight(weight)
    return flow.product(weight, per_sample_weights)


@aten("_weight_norm")
def _weight_norm(flow: Flow, v: Value, g: Value) -> Scale:
    """g v / ‖v‖."""
    flow.weight(v, g)
    return g.form


@aten("prelu _prelu_kernel")
def _prelu(flow: Flow, self: Value, weight: Value) -> Scale:
    flow.weight(weight)
    flow.demand(weight.form, ZERO, fixes=True)
    return self.form


@aten("scaled_dot_product_attention")
def _attention(flow: Flow, query: Value, key: Value, value: Value, attn_mask: Value | None) -> Scale:
    flow.weight(query, key, value)
    flow.hold(Value(flow.product(query, key)))
    if attn_mask is not None:  # added to the scores
        flow.demand(attn_mask.form, ZERO)
    return value.form


@aten("grid_sampler grid_sampler_2d grid_sampler_3d")
def _grid_sampler(flow: Flow, input: Value, grid: Value) -> Scale:
    flow.hold(grid)
    return input.form
