"""Operators that are homogeneous of degree one in a single tensor: f(c·x) = c·f(x) for c > 0.

They move entries around, pick some, or are linear, or piecewise linear with the kink at zero.
"""

from __future__ import annotations

from typing import Any

from swr.algebra.flow import Flow
from swr.algebra.forms import Scale, Value
from swr.algebra.rules.rulebook import aten


@aten(
    """relu leaky_relu rrelu abs neg positive real imag clone alias detach contiguous _to_copy to lift_fresh_copy
    view _unsafe_view view_copy reshape _reshape_alias flatten unflatten permute transpose t mT mH movedim moveaxis swapaxes
    swapdims numpy_T matrix_H adjoint ravel squeeze unsqueeze expand broadcast_to repeat tile slice select narrow split
    split_with_sizes chunk tensor_split hsplit vsplit dsplit unbind unsafe_split unsafe_chunk unsafe_split_with_sizes
    index _unsafe_index index_select gather take take_along_dim masked_select diagonal diag diagflat diag_embed
    linalg_diagonal as_strided unfold im2col col2im flip fliplr flipud roll rot90 tril triu combinations
    alias_copy as_strided_copy detach_copy diagonal_copy expand_copy narrow_copy permute_copy select_copy slice_copy split_copy
    split_with_sizes_copy squeeze_copy t_copy transpose_copy unbind_copy unfold_copy unsqueeze_copy view_as_complex_copy
    view_as_real_copy
    sum sum_to_size mean nansum nanmean amax amin max min aminmax median nanmedian mode kthvalue topk sort msort quantile
    nanquantile cumsum cummax cummin std trace deg2rad rad2deg chalf
    max_pool1d max_pool2d max_pool3d max_pool1d_with_indices max_pool2d_with_indices max_pool3d_with_indices
    adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d fractional_max_pool2d fractional_max_pool3d max_unpool2d
    max_unpool3d avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d
    _adaptive_avg_pool2d _adaptive_avg_pool3d upsample_nearest1d upsample_nearest2d upsample_nearest3d
    _upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d upsample_bilinear2d upsample_linear1d
    upsample_trilinear3d upsample_bicubic2d _upsample_bilinear2d_aa _upsample_bicubic2d_aa pixel_shuffle pixel_unshuffle
    channel_shuffle native_channel_shuffle reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d
    replication_pad2d replication_pad3d _pad_circular dropout native_dropout feature_dropout
    frobenius_norm nuclear_norm linalg_matrix_norm linalg_svdvals linalg_eigvalsh
    conj _conj conj_physical _conj_physical _neg_view resolve_conj resolve_neg view_as_real view_as_complex
    fft_fft fft_ifft fft_rfft fft_irfft fft_hfft fft_ihfft fft_fft2 fft_ifft2 fft_rfft2 fft_irfft2 fft_hfft2 fft_ihfft2
    fft_fftn fft_ifftn fft_rfftn fft_irfftn fft_hfftn fft_ihfftn fft_fftshift fft_ifftshift _fft_r2c _fft_c2c _fft_c2r"""
)
def _pass(flow: Flow, **arguments: Any) -> Scale:
    """The subject of the operator passes; any other tensor, e.g. random places or quantiles, is held."""
    subject = "self" if "self" in arguments else "input" if "input" in arguments else "A"
    flow.hold_scaled(*(value for name, value in arguments.items() if name != subject))
    return flow.same(arguments[subject])


@aten("repeat_interleave")
def _repeat_interleave(flow: Flow, self: Value) -> Scale:
    return flow.same(self)


@aten("type_as view_as reshape_as expand_as")
def _as_another(flow: Flow, self: Value, other: Value) -> Scale:
    """Of the other tensor only the shape or the type counts."""
    return flow.same(self)


@aten("to.other")
def _to_another(flow: Flow, self: Value, other: Value) -> Scale:
    return flow.same(self)


@aten("copysign")
def _copysign(flow: Flow, self: Value, other: Any) -> Scale:
    """Of the other tensor only the sign counts."""
    return flow.same(self)


@aten("view.dtype view_copy.dtype")
def _other_bits(flow: Flow, self: Value) -> Scale:
    """The bits are read as numbers of another type."""
    return flow.hold(self)


@aten("atleast_1d.Sequence atleast_2d.Sequence atleast_3d.Sequence broadcast_tensors meshgrid")
def _each_by_itself(flow: Flow, tensors: list[Value]) -> tuple[Scale, ...]:
    return tuple(tensor.form for tensor in tensors)


@aten("atleast_1d atleast_2d atleast_3d")
def _at_least(flow: Flow, self: Value) -> Scale:
    return flow.same(self)


@aten("segment_reduce")
def _segment_reduce(flow: Flow, data: Value, reduce: str, initial: float | None) -> Scale:
    return flow.hold(data) if reduce == "prod" else flow.same(data, initial)


@aten("bincount")
def _bincount(flow: Flow, weights: Value | None) -> Scale:
    """Sums of the weights; without them, numbers of entries."""
    return flow.same(1.0 if weights is None else weights)


@aten("ldexp")
def _ldexp(flow: Flow, self: Value, other: Value) -> Scale:
    flow.hold(other)
    return flow.same(self)


@aten("affine_grid_generator")
def _affine_grid(flow: Flow, theta: Value) -> Scale:
    return flow.same(theta)


@aten("_unique2 unique_dim unique_consecutive")
def _unique(flow: Flow, self: Value) -> Scale:
    return flow.same(self)
