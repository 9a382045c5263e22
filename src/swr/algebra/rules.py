"""One small rule per operator: the form of its output, and what it demands of its inputs.

Tables first: whole families of operators share a rule. A rule takes the flow and the operator's own arguments
(tensors as :class:`~swr.algebra.forms.Value`) and returns a form, or a tuple of forms for several outputs.
An operator without a rule holds: all its inputs must keep their scale. So a missing rule can restrict, never break.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

from swr.algebra.flow import GUARD, Flow, Rule
from swr.algebra.forms import ANY, ZERO, Form, Value

R = TypeVar("R", bound=Rule)
_RULES: dict[str, Rule] = {}


def rule(*operators: Any) -> Callable[[R], R]:
    """Teach the algebra an operator.

    The rule returns the form of the operator's output (its log-scale as a linear form) and states demands through
    the flow: ``flow.same(...)`` for what is added, ``flow.product(...)`` for what is multiplied,
    ``flow.power(x, k)``, ``flow.hold(...)`` for what must not be scaled.

    >>> import torch, swr
    >>> @torch.library.custom_op("docs::twice", mutates_args=())
    ... def twice(x: torch.Tensor) -> torch.Tensor:
    ...     return 2 * x
    >>> @swr.rule(torch.ops.docs.twice.default)
    ... def _(flow, x):
    ...     return flow.same(x)

    operators: operators (``torch.ops.my.op.default``), all overloads of one (``torch.ops.my.op``), or their names.
    """

    def register(function: R) -> R:
        for operator in operators:
            _RULES[str(operator)] = function
        return function

    return register


def lookup(target: Any) -> Rule | None:
    """The rule of an operator: of this overload, or of all its overloads."""
    found = _RULES.get(str(target))
    return found if found is not None else _RULES.get(str(getattr(target, "overloadpacket", "")))


def _aten(names: str) -> list[str]:
    return [f"aten.{name}" for name in names.split()]


# Homogeneous of degree one in the first argument, whatever the others are: c·x -> c·f(x).
@rule(
    *_aten(
        """relu leaky_relu rrelu abs neg positive real imag clone alias detach contiguous _to_copy to type_as lift_fresh_copy
        view _unsafe_view view_as view_copy reshape reshape_as _reshape_alias flatten unflatten permute transpose t mT movedim
        numpy_T adjoint squeeze unsqueeze expand expand_as broadcast_to repeat tile repeat_interleave slice select narrow split
        split_with_sizes chunk tensor_split unbind unsafe_split unsafe_chunk unsafe_split_with_sizes index index_select gather
        take take_along_dim masked_select diagonal diag diag_embed as_strided unfold im2col col2im flip fliplr flipud roll rot90
        tril triu sum mean nansum nanmean amax amin max min aminmax median nanmedian mode kthvalue topk sort msort cumsum
        cummax cummin std trace
        max_pool1d max_pool2d max_pool3d max_pool2d_with_indices max_pool3d_with_indices adaptive_max_pool1d
        adaptive_max_pool2d adaptive_max_pool3d fractional_max_pool2d fractional_max_pool3d max_unpool2d max_unpool3d
        avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d _adaptive_avg_pool2d
        _adaptive_avg_pool3d upsample_nearest1d upsample_nearest2d upsample_nearest3d _upsample_nearest_exact1d
        _upsample_nearest_exact2d upsample_bilinear2d upsample_linear1d upsample_trilinear3d upsample_bicubic2d
        _upsample_bilinear2d_aa _upsample_bicubic2d_aa pixel_shuffle pixel_unshuffle channel_shuffle reflection_pad1d
        reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d replication_pad3d
        dropout native_dropout feature_dropout frobenius_norm nuclear_norm linalg_matrix_norm
        conj resolve_conj resolve_neg view_as_real view_as_complex"""
    )
)
def _pass(flow: Flow, x: Any, *others: Any, **options: Any) -> Form | None:
    return flow.same(x)


# Not homogeneous, but close to it for large inputs, or up to a clip: held, unless the user asks to pass.
@rule(*_aten("gelu silu mish softplus log_sigmoid elu celu selu hardswish tanh softsign hardshrink softshrink"))
def _activation(flow: Flow, x: Value, *others: Any, **options: Any) -> Form | None:
    if flow.inhomogeneous == "pass":
        return x.form
    return flow.hold(x)


# Only the shape, the sign or the order of the input counts.
@rule(
    *_aten(
        """ones_like rand_like randn_like randint_like empty_like new_ones new_empty bernoulli.p argmax argmin argsort sign sgn
        signbit isnan isinf isfinite nonzero logical_not count_nonzero any all cosine_similarity"""
    )
)
def _scale_free(flow: Flow, *args: Any, **options: Any) -> Form:
    return ZERO


@rule(*_aten("zeros_like new_zeros"))
def _zeros(flow: Flow, *args: Any, **options: Any) -> Form | None:
    return ANY


@rule(*_aten("full_like new_full"))
def _full(flow: Flow, x: Value, *args: Any, **options: Any) -> Form | None:
    return ANY if args and isinstance(args[-1], (int, float)) and (args[-1] == 0 or math.isinf(args[-1])) else ZERO


# Sums: everything that meets must have one scale.
@rule(*_aten("add sub rsub dist cdist pairwise_distance"))
def _sum(flow: Flow, x: Any, y: Any, *others: Any, **options: Any) -> Form | None:
    return flow.same(x, y)


@rule("aten.lerp")
def _lerp(flow: Flow, x: Value, y: Value, weight: Any) -> Form | None:
    flow.hold(weight)  # x + w (y - x) has a share of x in it whatever w is
    return flow.same(x, y)


@rule(*_aten("maximum minimum fmax fmin max.other min.other hypot"))
def _extremum(flow: Flow, x: Any, y: Any) -> Form | None:
    return flow.same(x, y)


@rule(*_aten("cat concat concatenate stack hstack vstack dstack column_stack row_stack block_diag"))
def _join(flow: Flow, tensors: Any, *others: Any, **options: Any) -> Form | None:
    return flow.same(*tensors)


@rule("aten.where")
def _where(flow: Flow, condition: Value, x: Any = 0.0, y: Any = 0.0) -> Form | None:
    return flow.same(x, y)


@rule(*_aten("masked_fill fill"))
def _masked_fill(flow: Flow, x: Value, *rest: Any) -> Form | None:
    return flow.same(x, rest[-1])


@rule("aten.copy")
def _copy(flow: Flow, target: Value, source: Value, *others: Any) -> Form | None:
    return source.form


@rule(*_aten("slice_scatter select_scatter diagonal_scatter as_strided_scatter"))
def _write(flow: Flow, x: Value, source: Value, *others: Any, **options: Any) -> Form | None:
    return flow.same(x, source)


@rule("aten.masked_scatter")
def _masked_scatter(flow: Flow, x: Value, mask: Value, source: Value) -> Form | None:
    return flow.same(x, source)


@rule(*_aten("index_put index_put_"))
def _index_put(flow: Flow, x: Value, indices: Any, values: Value, *others: Any) -> Form | None:
    return flow.same(x, values)


@rule(*_aten("scatter scatter_add scatter_reduce index_add index_copy index_fill index_reduce"))
def _scatter(flow: Flow, x: Value, dim: int, index: Value, source: Any, *others: Any, **options: Any) -> Form | None:
    if {"prod", "multiply"} & {*others, *options.values()}:
        return flow.hold(x, source)
    return flow.same(x, source)


@rule(*_aten("eq ne lt le gt ge"))
def _compare(flow: Flow, x: Any, y: Any) -> Form:
    if isinstance(y, (int, float)) and y != 0 and math.isfinite(y):
        return flow.hold(x)
    flow.same(x, y)
    return ZERO


# Products and powers.
@rule(*_aten("mul multiply mm bmm matmul dot vdot mv outer ger inner kron linalg_vecdot tensordot"))
def _product(flow: Flow, x: Any, y: Any, *others: Any, **options: Any) -> Form | None:
    return flow.product(x, y)


@rule(*_aten("einsum"))
def _einsum(flow: Flow, equation: str, operands: Any, *others: Any, **options: Any) -> Form | None:
    return flow.product(*operands)


@rule(*_aten("linalg_multi_dot chain_matmul"))
def _multi_dot(flow: Flow, operands: Any) -> Form | None:
    return flow.product(*operands)


@rule(*_aten("div divide true_divide"))
def _quotient(flow: Flow, x: Any, y: Any, **options: Any) -> Form | None:
    if options.get("rounding_mode") is not None:
        return flow.hold(x, y)
    numerator = flow.product(x)
    if not isinstance(y, Value):
        return numerator
    if isinstance(x, Value) and not (x.is_constant or y.is_constant):
        flow.weight(x, y)
    return ANY if numerator is ANY or y.form is ANY else numerator - y.form


@rule("aten.pow")
def _pow(flow: Flow, x: Any, exponent: Any) -> Form | None:
    if isinstance(exponent, (int, float)) and isinstance(x, Value):
        return flow.power(x, float(exponent))
    return flow.hold(x, exponent)


@rule(*_aten("square var"))
def _square(flow: Flow, x: Value, *others: Any, **options: Any) -> Form | None:
    return flow.power(x, 2)


@rule("aten.sqrt")
def _sqrt(flow: Flow, x: Value) -> Form | None:
    return flow.power(x, 0.5)


@rule("aten.rsqrt")
def _rsqrt(flow: Flow, x: Value) -> Form | None:
    return flow.power(x, -0.5)


@rule("aten.reciprocal")
def _reciprocal(flow: Flow, x: Value) -> Form | None:
    return flow.power(x, -1)


@rule("aten.var_mean")
def _var_mean(flow: Flow, x: Value, *others: Any, **options: Any) -> tuple[Form | None, Form | None]:
    return flow.power(x, 2), x.form


@rule("aten.std_mean")
def _std_mean(flow: Flow, x: Value, *others: Any, **options: Any) -> tuple[Form | None, Form | None]:
    return x.form, x.form


@rule(*_aten("linalg_vector_norm linalg_norm norm"))
def _vector_norm(flow: Flow, x: Value, order: Any = 2, *others: Any, **options: Any) -> Form | None:
    return ZERO if order == 0 else x.form


@rule(*_aten("addmm addmv addbmm baddbmm addr addcmul"))
def _add_product(flow: Flow, x: Value, a: Value, b: Value, **options: Any) -> Form | None:
    return flow.same(_of(flow.product(a, b)), x)


@rule("aten.addcdiv")
def _add_quotient(flow: Flow, x: Value, a: Value, b: Value, **options: Any) -> Form | None:
    return flow.same(_of(_quotient(flow, a, b)), x)


# Layers.
@rule("aten.linear", *_aten("conv1d conv2d conv3d convolution conv_transpose1d conv_transpose2d conv_transpose3d"))
def _layer(flow: Flow, x: Value, weight: Value, bias: Value | None = None, *others: Any, **options: Any) -> Form | None:
    flow.weight(weight)
    return flow.same(_of(flow.product(x, weight)), bias)


@rule("aten.bilinear")
def _bilinear(flow: Flow, x: Value, y: Value, weight: Value, bias: Value | None = None) -> Form | None:
    flow.weight(weight)
    return flow.same(_of(flow.product(x, y, weight)), bias)


@rule("aten.embedding")
def _embedding(flow: Flow, table: Value, *others: Any, **options: Any) -> Form | None:
    flow.weight(table)
    return table.form


@rule(*_aten("embedding_bag _embedding_bag _embedding_bag_forward_only"))
def _embedding_bag(flow: Flow, table: Value, *args: Any, **options: Any) -> Form | None:
    flow.weight(table)
    return flow.product(table, args[5] if len(args) > 5 else options.get("per_sample_weights"))


@rule("aten._weight_norm")
def _weight_norm(flow: Flow, direction: Value, length: Value, *others: Any) -> Form | None:
    flow.weight(direction, length)
    return length.form


@rule("aten.prelu", "aten._prelu_kernel")
def _prelu(flow: Flow, x: Value, slope: Value) -> Form | None:
    flow.weight(slope)
    flow.demand(slope.form, ZERO)
    return x.form


@rule("aten.scaled_dot_product_attention")
def _attention(
    flow: Flow, query: Value, key: Value, value: Value, mask: Value | None = None, *others: Any, **options: Any
) -> Form | None:
    flow.weight(query, key, value)
    flow.hold(_of(flow.product(query, key)))
    if mask is not None:  # added to the scores
        flow.demand(mask.form, ZERO)
    return value.form


# Normalisation: the input's scale is forgotten.
def _normalised(flow: Flow, weight: Value | None, bias: Value | None) -> Form | None:
    if weight is not None:
        flow.weight(weight)
    return flow.same(_of(ZERO if weight is None else weight.form), bias)


def _statistics(flow: Flow, x: Value, mean: Value | None, var: Value | None) -> None:
    flow.follow(mean, x.form)
    flow.follow(var, flow.power(x, 2))


@rule("aten.layer_norm")
def _layer_norm(
    flow: Flow,
    x: Value,
    shape: Any,
    weight: Value | None = None,
    bias: Value | None = None,
    *others: Any,
    **options: Any,
) -> Form | None:
    return _normalised(flow, weight, bias)


@rule(*_aten("rms_norm"))
def _rms_norm(flow: Flow, x: Value, shape: Any, weight: Value | None = None, *others: Any, **options: Any) -> Form | None:
    return _normalised(flow, weight, None)


@rule("aten.group_norm")
def _group_norm(
    flow: Flow,
    x: Value,
    groups: int,
    weight: Value | None = None,
    bias: Value | None = None,
    *others: Any,
    **options: Any,
) -> Form | None:
    return _normalised(flow, weight, bias)


@rule("aten.batch_norm", "aten.instance_norm")
def _batch_norm(
    flow: Flow,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    mean: Value | None,
    var: Value | None,
    *others: Any,
    **options: Any,
) -> Form | None:
    _statistics(flow, x, mean, var)
    return _normalised(flow, weight, bias)


@rule(
    *_aten(
        "_native_batch_norm_legit_functional _native_batch_norm_legit_no_training _native_batch_norm_legit native_batch_norm"
    )
)
def _native_batch_norm(flow: Flow, x: Value, *args: Any, **options: Any) -> tuple[Form | None, ...]:
    out = _batch_norm(flow, x, *args, **options)
    mean, var = x.form, flow.power(x, 2)
    return out, mean, flow.power(x, -1), mean, var


@rule("aten._native_batch_norm_legit.no_stats")
def _batch_norm_without_statistics(
    flow: Flow, x: Value, weight: Value | None, bias: Value | None, *others: Any, **options: Any
) -> tuple[Form | None, ...]:
    return _normalised(flow, weight, bias), x.form, flow.power(x, -1)


# Operators whose constants decide.
@rule("aten.clamp", "aten.clip")
def _clamp(flow: Flow, x: Value, low: Any = None, high: Any = None) -> Form | None:
    low_passes = low is None or (isinstance(low, (int, float)) and (0 <= low <= GUARD or low == -math.inf))
    high_passes = high is None or (isinstance(high, (int, float)) and (high in (0, math.inf)))
    if low_passes and high_passes:
        return x.form
    if flow.inhomogeneous == "pass":
        return x.form
    return flow.hold(x, low, high)


@rule("aten.clamp_min")
def _clamp_min(flow: Flow, x: Value, low: Any) -> Form | None:
    return _clamp(flow, x, low)


@rule("aten.clamp_max")
def _clamp_max(flow: Flow, x: Value, high: Any) -> Form | None:
    return _clamp(flow, x, None, high)


@rule("aten.hardtanh")
def _hardtanh(flow: Flow, x: Value, low: float = -1.0, high: float = 1.0) -> Form | None:
    return _clamp(flow, x, low, high)


@rule("aten.relu6")
def _relu6(flow: Flow, x: Value) -> Form | None:
    return _clamp(flow, x, 0.0, 6.0)


@rule("aten.threshold")
def _threshold(flow: Flow, x: Value, threshold: float, value: float) -> Form | None:
    return x.form if threshold == 0 and value == 0 else flow.hold(x)


@rule("aten.constant_pad_nd", "aten.pad")
def _pad(flow: Flow, x: Value, size: Any, *args: Any, **options: Any) -> Form | None:
    fill = options.get("value", args[-1] if args else None)
    return flow.same(x, fill if isinstance(fill, (int, float)) else 0.0)


@rule("aten.grid_sampler", "aten.grid_sampler_2d", "aten.grid_sampler_3d")
def _grid_sampler(flow: Flow, x: Value, grid: Value, *others: Any) -> Form | None:
    flow.hold(grid)
    return x.form


def _of(form: Form | None) -> Value:
    return Value(form)
