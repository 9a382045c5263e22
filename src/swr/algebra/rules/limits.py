"""Operators whose constants decide, and non-homogeneous activations: thresholds, clips, fills."""

from __future__ import annotations

import math
from typing import Any

from swr.algebra.flow import GUARD, Flow
from swr.algebra.forms import Scale, Value
from swr.algebra.rules.rulebook import aten


# Not homogeneous, but close to it for large inputs, or up to a clip: held, unless the user asks to pass.
@aten("gelu silu mish softplus log_sigmoid elu celu selu hardswish tanh hardshrink softshrink")
def _activation(flow: Flow, self: Value) -> Scale:
    return self.form if flow.inhomogeneous == "pass" else flow.hold(self)


@aten("clamp clip")
def _clamp(flow: Flow, self: Value, min: Any, max: Any) -> Scale:
    return _between(flow, self, min, max)


@aten("clamp_min")
def _clamp_min(flow: Flow, self: Value, min: Any) -> Scale:
    return _between(flow, self, min, None)


@aten("clamp_max")
def _clamp_max(flow: Flow, self: Value, max: Any) -> Scale:
    return _between(flow, self, None, max)


@aten("hardtanh")
def _hardtanh(flow: Flow, self: Value, min_val: float, max_val: float) -> Scale:
    return _between(flow, self, min_val, max_val)


@aten("relu6")
def _relu6(flow: Flow, self: Value) -> Scale:
    return _between(flow, self, 0.0, 6.0)


def _between(flow: Flow, x: Value, low: Any, high: Any) -> Scale:
    """Limits that are numbers pass at zero and infinity, the lower one as a guard too; tensors must have the scale of x."""
    low_passes = not isinstance(low, (int, float)) or 0 <= low <= GUARD or low == -math.inf
    high_passes = not isinstance(high, (int, float)) or high in (0, math.inf)
    if low_passes and high_passes:
        return flow.same(x, *(limit for limit in (low, high) if isinstance(limit, Value)))
    return x.form if flow.inhomogeneous == "pass" else flow.hold(x, low, high)


@aten("threshold")
def _threshold(flow: Flow, self: Value, threshold: float, value: float) -> Scale:
    return self.form if threshold == 0 and value == 0 else flow.hold(self)


@aten("constant_pad_nd")
def _constant_pad(flow: Flow, self: Value, value: float) -> Scale:
    return flow.same(self, value)


@aten("pad")
def _pad(flow: Flow, self: Value, mode: str, value: float | None) -> Scale:
    return flow.same(self, (value or 0.0) if mode == "constant" else 0.0)


@aten("nan_to_num")
def _nan_to_num(flow: Flow, self: Value, nan: float | None, posinf: float | None, neginf: float | None) -> Scale:
    """NaN becomes 0, and infinities what counts as infinite; any other number is a constant."""
    return flow.same(self, nan, posinf, neginf)
