"""Operators of whose inputs only the shape, the sign or the order counts: f(c·x) = f(x) for c > 0."""

from __future__ import annotations

import math
from typing import Any

from swr.algebra.flow import GUARD, Flow
from swr.algebra.forms import ANY, ZERO, Scale, Value
from swr.algebra.rules.rulebook import aten


@aten(
    """ones_like rand_like randn_like randint_like empty_like new_ones new_empty new_empty_strided bernoulli.p uniform
    exponential geometric cauchy log_normal normal_functional argmax argmin argsort sign sgn signbit angle isnan isinf isposinf
    isneginf isfinite isreal nonzero nonzero_static argwhere logical_not logical_and logical_or logical_xor count_nonzero any
    all sym_size sym_stride sym_numel sym_storage_offset where.default"""
)
def _scale_free(flow: Flow, **arguments: Any) -> Scale:
    return ZERO


@aten("zeros_like new_zeros zero")
def _zeros(flow: Flow, **arguments: Any) -> Scale:
    return ANY


@aten("full_like new_full")
def _full(flow: Flow, fill_value: Any, **arguments: Any) -> Scale:
    number = isinstance(fill_value, (int, float))
    return ANY if number and (fill_value == 0 or math.isinf(fill_value)) else ZERO


@aten("fill")
def _fill(flow: Flow, self: Value, value: Any) -> Scale:
    return value.form if isinstance(value, Value) else ANY if value == 0 or math.isinf(abs(value)) else ZERO


@aten("heaviside")
def _heaviside(flow: Flow, self: Value, values: Value) -> Scale:
    return flow.hold(values)  # beside entries that are 1


@aten("corrcoef linalg_cond")
def _ratio(flow: Flow, self: Value) -> Scale:
    return ZERO


@aten("cosine_embedding_loss")
def _cosine_embedding_loss(flow: Flow, input1: Value, input2: Value) -> Scale:
    return ZERO


@aten("cosine_similarity")
def _cosine_similarity(flow: Flow, x1: Value, x2: Value, eps: float) -> Scale:
    return ZERO if abs(eps) <= GUARD else flow.hold(x1, x2)


@aten("atan2")
def _direction(flow: Flow, self: Value, other: Value) -> Scale:
    flow.same(self, other)
    return ZERO


@aten("equal")
def _equal(flow: Flow, self: Value, other: Value) -> Scale:
    flow.same(self, other)
    return ZERO


@aten("searchsorted")
def _searchsorted(flow: Flow, sorted_sequence: Value, self: Any) -> Scale:
    return _ordered(flow, self, sorted_sequence)


@aten("bucketize")
def _bucketize(flow: Flow, self: Any, boundaries: Value) -> Scale:
    return _ordered(flow, self, boundaries)


@aten("eq ne lt le gt ge")
def _compare(flow: Flow, self: Any, other: Any) -> Scale:
    return _ordered(flow, other, self)


def _ordered(flow: Flow, number: Any, other: Any) -> Scale:
    """A comparison: both sides share one scale, and a small number is no guard here."""
    if isinstance(number, (int, float)) and number != 0 and math.isfinite(number):
        return flow.hold(other)
    flow.same(number, other)
    return ZERO
