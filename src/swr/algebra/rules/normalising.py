"""Normalisation layers: the scale of the input is forgotten, running statistics follow it.

An epsilon up to 1e-3 only guards against division by zero. A larger one counts: γ x / √(v + ε) then depends on the scale
of x, and the layer holds its input.
"""

from __future__ import annotations

from typing import Any

from swr.algebra.flow import Flow
from swr.algebra.forms import ZERO, Scale, Value
from swr.algebra.rules.rulebook import aten

EPSILON = 1e-3
"""The largest epsilon of a normalisation layer that counts as nothing; 1e-5 is usual, 1e-3 occurs."""


@aten("layer_norm group_norm")
def _layer_norm(flow: Flow, input: Value, weight: Value | None, bias: Value | None, eps: float) -> Scale:
    return _normalised(flow, input, weight, bias, eps)


@aten("rms_norm")
def _rms_norm(flow: Flow, input: Value, weight: Value | None, eps: float | None) -> Scale:
    return _normalised(flow, input, weight, None, eps)


@aten("_fused_rms_norm")
def _fused_rms_norm(flow: Flow, input: Value, weight: Value | None, eps: float | None) -> tuple[Scale, Scale]:
    """With 1 / √(mean square + ε)."""
    return _normalised(flow, input, weight, None, eps), _reciprocal(flow, input, 1)


@aten("batch_norm instance_norm")
def batch_norm(
    flow: Flow,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value | None,
    running_var: Value | None,
    eps: float | None,
) -> Scale:
    """γ (x − m) / √(v + ε) + β; the running mean and variance follow the input."""
    flow.follow(running_mean, input.form)
    flow.follow(running_var, flow.power(input, 2))
    return _normalised(flow, input, weight, bias, eps)


@aten("native_layer_norm native_group_norm")
def _native_layer_norm(
    flow: Flow, input: Value, weight: Value | None, bias: Value | None, eps: float
) -> tuple[Scale, Scale, Scale]:
    """With the mean and 1 / √(variance + ε)."""
    return _normalised(flow, input, weight, bias, eps), input.form, _reciprocal(flow, input, 2)


@aten("_native_batch_norm_legit.no_stats")
def _without_statistics(
    flow: Flow, input: Value, weight: Value | None, bias: Value | None, eps: float
) -> tuple[Scale, Scale, Scale]:
    return _native_layer_norm(flow, input, weight, bias, eps)


@aten("_native_batch_norm_legit native_batch_norm _native_batch_norm_legit_no_training")
def _native_batch_norm(flow: Flow, input: Value, running_mean: Any, running_var: Any, **others: Any) -> tuple[Scale, ...]:
    out = batch_norm(flow, input, others["weight"], others["bias"], running_mean, running_var, others["eps"])
    return out, input.form, _reciprocal(flow, input, 2)


@aten("_native_batch_norm_legit_functional")
def _functional_batch_norm(flow: Flow, input: Value, **others: Any) -> tuple[Scale, ...]:
    """With the next running mean and variance."""
    return *_native_batch_norm(flow, input, **others), input.form, flow.power(input, 2)


def _reciprocal(flow: Flow, input: Value, output: int) -> Scale:
    """1 / √(variance + ε): where the variance is zero, ε alone decides, so that it may not be read."""
    return flow.hold(input) if flow.reads(output) else flow.power(input, -1)


def _normalised(flow: Flow, input: Value, weight: Value | None, bias: Value | None, eps: float | None) -> Scale:
    if eps is not None and abs(eps) > EPSILON and flow.inhomogeneous != "pass":
        flow.hold(input)
    if weight is not None:
        flow.weight(weight)
    return flow.same(Value(ZERO if weight is None else weight.form), bias)
