"""Where several tensors meet and all must have one scale: sums, differences, joins, choices, writes into a tensor."""

from __future__ import annotations

from typing import Any

from swr.algebra.flow import GUARD, Flow
from swr.algebra.forms import ZERO, Scale, Value
from swr.algebra.rules.rulebook import aten


@aten("add sub subtract rsub maximum minimum fmax fmin max.other min.other hypot")
def _meet(flow: Flow, self: Any, other: Any) -> Scale:
    return flow.same(self, other)


@aten("complex")
def _complex(flow: Flow, real: Value, imag: Value) -> Scale:
    return flow.same(real, imag)


@aten("normal")
def _normal(flow: Flow, mean: Any, std: Any) -> Scale:
    """mean + std·ε; a number that is no guard is a constant."""
    return flow.same(mean, std)


@aten("lerp")
def _lerp(flow: Flow, self: Value, end: Value, weight: Any) -> Scale:
    flow.hold(weight)  # x + w (y - x) has a share of x in it whatever w is
    return flow.same(self, end)


@aten("cat concat concatenate stack hstack vstack dstack column_stack row_stack block_diag cartesian_prod _chunk_cat")
def _join(flow: Flow, tensors: list[Value]) -> Scale:
    return flow.same(*tensors)


@aten("diff")
def _diff(flow: Flow, self: Value, prepend: Value | None, append: Value | None) -> Scale:
    return flow.same(self, prepend, append)


@aten("where")
def _where(flow: Flow, condition: Value, self: Any, other: Any) -> Scale:
    return flow.same(self, other)


@aten("copy")
def _copy(flow: Flow, self: Value, src: Value) -> Scale:
    return src.form


@aten(
    """masked_fill index_fill slice_scatter select_scatter diagonal_scatter as_strided_scatter masked_scatter index_put
    index_put_ put index_add index_copy scatter_add scatter scatter_reduce index_reduce"""
)
def _write(flow: Flow, self: Value, **arguments: Any) -> Scale:
    """Into a tensor; products of what is written with what stands there are held."""
    source = next(arguments[name] for name in ("src", "source", "values", "value") if name in arguments)
    if arguments.get("reduce") in ("prod", "multiply"):
        return flow.hold(self, source)
    return flow.same(self, source)


@aten("_unsafe_masked_index")
def _masked_index(flow: Flow, self: Value, fill: Any) -> Scale:
    return flow.same(self, fill)


@aten("_unsafe_masked_index_put_accumulate")
def _masked_index_put(flow: Flow, self: Value, values: Value) -> Scale:
    return flow.same(self, values)


@aten("isin")
def _isin(flow: Flow, **arguments: Any) -> Scale:
    flow.same(*(value for name, value in arguments.items() if name not in ("assume_unique", "invert")))
    return ZERO


# Distances: |x - y| in a norm; the norm with p = 0 counts entries.
@aten("dist")
def _dist(flow: Flow, self: Value, other: Value, p: float) -> Scale:
    return _norm_of(flow, p, self, other)


@aten("cdist _cdist_forward")
def _cdist(flow: Flow, x1: Value, x2: Value, p: float) -> Scale:
    return _norm_of(flow, p, x1, x2)


@aten("_euclidean_dist")
def _euclidean(flow: Flow, x1: Value, x2: Value) -> Scale:
    return flow.same(x1, x2)


@aten("pairwise_distance")
def _pairwise(flow: Flow, x1: Value, x2: Value, p: float, eps: float) -> Scale:
    return _norm_of(flow, p, x1, x2) if abs(eps) <= GUARD else flow.hold(x1, x2)


@aten("pdist _pdist_forward")
def _pdist(flow: Flow, self: Value, p: float) -> Scale:
    return _norm_of(flow, p, self)


@aten("linalg_vector_norm linalg_norm")
def _vector_norm(flow: Flow, self: Value, ord: Any) -> Scale:
    return _norm_of(flow, ord, self)


@aten("norm")
def _norm(flow: Flow, self: Value, p: Any = 2) -> Scale:
    return _norm_of(flow, p, self)


def _norm_of(flow: Flow, order: Any, *values: Value) -> Scale:
    common = flow.same(*values)
    return ZERO if order == 0 else common


# Losses that are homogeneous in some of their arguments.
_MEAN = 1  # of torch's numbers for "none", "mean" and "sum"


@aten("l1_loss")
def _l1_loss(flow: Flow, self: Value, target: Value) -> Scale:
    return flow.same(self, target)


@aten("mse_loss")
def _mse_loss(flow: Flow, self: Value, target: Value) -> Scale:
    return flow.power(Value(flow.same(self, target)), 2)


@aten("nll_loss nll_loss_nd nll_loss2d")
def _nll_loss(flow: Flow, self: Value, weight: Value | None, reduction: int) -> Scale:
    """Minus the chosen entries times the weights of their classes; the mean divides by the sum of the weights."""
    return self.form if reduction == _MEAN else flow.product(self, weight)


@aten("binary_cross_entropy")
def _binary_cross_entropy(flow: Flow, self: Value, target: Value, weight: Value | None) -> Scale:
    flow.hold(self, target)
    return flow.product(weight)


@aten("binary_cross_entropy_with_logits")
def _binary_cross_entropy_with_logits(
    flow: Flow, self: Value, target: Value, weight: Value | None, pos_weight: Value | None
) -> Scale:
    flow.hold(self, target, pos_weight)
    return flow.product(weight)


@aten("soft_margin_loss")
def _soft_margin_loss(flow: Flow, self: Value, target: Value) -> Scale:
    """log(1 + exp(−x y))."""
    return flow.hold(Value(flow.product(self, target)))


@aten("margin_ranking_loss")
def _margin_ranking_loss(flow: Flow, input1: Value, input2: Value, margin: float) -> Scale:
    return flow.same(input1, input2, margin)
