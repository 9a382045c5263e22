"""Products, quotients and powers: the forms are added, subtracted and multiplied."""

from __future__ import annotations

from typing import Any

from swr.algebra.flow import Flow
from swr.algebra.forms import ANY, Scale, Value
from swr.algebra.rules.rulebook import aten


@aten("mul multiply matmul vdot inner kron cross linalg_cross tensordot")
def _product(flow: Flow, self: Any, other: Any) -> Scale:
    return flow.product(self, other)


@aten("mm bmm")
def _matrices(flow: Flow, self: Value, mat2: Value) -> Scale:
    return flow.product(self, mat2)


@aten("dot")
def _dot(flow: Flow, self: Value, tensor: Value) -> Scale:
    return flow.product(self, tensor)


@aten("mv")
def _matrix_vector(flow: Flow, self: Value, vec: Value) -> Scale:
    return flow.product(self, vec)


@aten("outer ger")
def _outer(flow: Flow, self: Value, vec2: Value) -> Scale:
    return flow.product(self, vec2)


@aten("linalg_vecdot")
def _vecdot(flow: Flow, x: Value, y: Value) -> Scale:
    return flow.product(x, y)


@aten("einsum linalg_multi_dot")
def _several(flow: Flow, tensors: list[Value], **others: Any) -> Scale:
    return flow.product(*tensors)


@aten("chain_matmul")
def _chain(flow: Flow, matrices: list[Value]) -> Scale:
    return flow.product(*matrices)


@aten("trapz trapezoid cumulative_trapezoid")
def _trapezoid(flow: Flow, y: Value, **spacing: Any) -> Scale:
    """Heights times the distances between the places."""
    return flow.product(y, spacing.get("x"))


@aten("stft")
def _stft(flow: Flow, self: Value, window: Value | None) -> Scale:
    return flow.product(self, window)


@aten("istft")
def _istft(flow: Flow, self: Value, window: Value | None) -> Scale:
    """The windows are applied once more and divided by the sum of their squares."""
    return self.form if window is None else quotient(flow, self, window)


@aten("polar")
def _polar(flow: Flow, abs: Value, angle: Value) -> Scale:
    flow.hold(angle)
    return abs.form


@aten("div divide true_divide")
def _quotient(flow: Flow, self: Any, other: Any, **options: Any) -> Scale:
    if options.get("rounding_mode") is not None:
        return flow.hold(self, other)
    return quotient(flow, self, other)


def quotient(flow: Flow, x: Any, y: Any) -> Scale:
    """The form of x / y."""
    numerator = flow.product(x)
    if not isinstance(y, Value):
        return numerator
    if isinstance(x, Value) and not (x.is_constant or y.is_constant):
        flow.weight(x, y)
    return ANY if numerator is ANY or y.form is ANY else numerator - y.form


@aten("pow float_power")
def _pow(flow: Flow, self: Any, exponent: Any) -> Scale:
    if isinstance(exponent, (int, float)) and isinstance(self, Value):
        return flow.power(self, float(exponent))
    return flow.hold(self, exponent)


@aten("square var")
def _square(flow: Flow, self: Value) -> Scale:
    return flow.power(self, 2)


@aten("prod")
def _prod(flow: Flow, self: Value) -> Scale:
    """Of all entries."""
    return flow.power(self, flow.shape_of("self").numel())


@aten("prod.dim_int")
def _prod_along(flow: Flow, self: Value, dim: int) -> Scale:
    shape = flow.shape_of("self")
    return flow.power(self, shape[dim] if shape else 1)


@aten("gradient")
def _gradient(flow: Flow, self: Value, **others: Any) -> Scale | tuple[Scale, ...]:
    """Differences over distances: numbers, or the coordinates along each axis."""
    spacing = others.get("spacing")
    if isinstance(spacing, list) and any(isinstance(each, Value) for each in spacing):
        return tuple(quotient(flow, self, each) for each in spacing)
    return self.form


@aten("cov")
def _covariance(flow: Flow, self: Value) -> Scale:
    return flow.power(self, 2)


@aten("sqrt")
def _sqrt(flow: Flow, self: Value) -> Scale:
    return flow.power(self, 0.5)


@aten("rsqrt")
def _rsqrt(flow: Flow, self: Value) -> Scale:
    return flow.power(self, -0.5)


@aten("reciprocal")
def _reciprocal(flow: Flow, self: Value) -> Scale:
    return flow.power(self, -1)


@aten("var_mean")
def _var_mean(flow: Flow, self: Value) -> tuple[Scale, Scale]:
    return flow.power(self, 2), self.form


@aten("std_mean")
def _std_mean(flow: Flow, self: Value) -> tuple[Scale, Scale]:
    return self.form, self.form


@aten("addmm sspaddmm")
def _addmm(flow: Flow, self: Value, mat1: Value, mat2: Value) -> Scale:
    return flow.same(Value(flow.product(mat1, mat2)), self)


@aten("addmv")
def _addmv(flow: Flow, self: Value, mat: Value, vec: Value) -> Scale:
    return flow.same(Value(flow.product(mat, vec)), self)


@aten("addbmm baddbmm")
def _addbmm(flow: Flow, self: Value, batch1: Value, batch2: Value) -> Scale:
    return flow.same(Value(flow.product(batch1, batch2)), self)


@aten("addr")
def _addr(flow: Flow, self: Value, vec1: Value, vec2: Value) -> Scale:
    return flow.same(Value(flow.product(vec1, vec2)), self)


@aten("addcmul")
def _addcmul(flow: Flow, self: Value, tensor1: Value, tensor2: Value) -> Scale:
    return flow.same(Value(flow.product(tensor1, tensor2)), self)


@aten("addcdiv")
def _addcdiv(flow: Flow, self: Value, tensor1: Value, tensor2: Value) -> Scale:
    return flow.same(Value(quotient(flow, tensor1, tensor2)), self)
