"""How labels pass an operator, one small rule per kind: what keeps units apart, and what a layer does with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx

from swr.algebra.graph import module_path
from swr.algebra.walk import is_random, packet
from swr.units.labels import Labels, Rule, UnitWalk, Use, along, no_unit, spread

_RULES: dict[str, Rule] = {}


def lookup(node: fx.Node) -> Rule | None:
    """The rule of a node's operator; whatever torch calls pointwise needs none of its own."""
    found = _RULES.get(packet(node.target))
    if found is None and torch.Tag.pointwise in getattr(node.target, "tags", ()):
        return _pointwise
    return found


def is_activation(node: fx.Node) -> bool:
    """Whether the operator treats every entry by itself, perhaps with a slope of its own or at random."""
    return lookup(node) is _pointwise or packet(node.target) in ("prelu", "_prelu_kernel")


def is_pointwise(node: fx.Node) -> bool:
    """Whether the operator treats every entry by itself and in the same way each time."""
    return lookup(node) is _pointwise and not is_random(node)


def is_pooling(node: fx.Node) -> bool:
    """Whether the operator works within the places of one channel."""
    return packet(node.target) in _PLACES


def is_normalisation(node: fx.Node) -> bool:
    """Whether the operator normalises each channel by itself."""
    return lookup(node) is _batch_norm


def _subject(args: dict[str, Any]) -> fx.Node:
    """The tensor that an operator works on."""
    subject: fx.Node = args["self"] if "self" in args else args["input"]
    return subject


def _rule(names: str) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        _RULES.update(dict.fromkeys(names.split(), function))
        return function

    return register


@_rule("hardswish where rrelu celu selu")
def _pointwise(walk: UnitWalk, node: fx.Node, args: dict[str, Any]) -> Tensor:
    """All that meets in an entry must be one unit's, or constant."""
    shape = node.meta["val"].shape
    parts = [walk.values[each].broadcast_to(shape) for each in node.all_input_nodes if walk.values[each] is not None]
    common: Tensor = parts[0]
    for part in parts[1:]:
        clash = common != part
        if bool(clash.any()):
            for labels in (common, part):
                walk.lose(labels[clash], f"{walk.where} joins it with something else")
            common = torch.where(clash, 0, common)
    return common


@_rule(
    "clone alias detach contiguous _to_copy type_as lift_fresh_copy dropout feature_dropout alpha_dropout prelu _prelu_kernel"
)
def _same(walk: UnitWalk, node: fx.Node, args: dict[str, Any]) -> Tensor:
    return walk.of(_subject(args))


@_rule("native_dropout")
def _with_mask(walk: UnitWalk, node: fx.Node, args: dict[str, Any]) -> tuple[Tensor, Tensor]:
    return walk.of(args["input"]), walk.of(args["input"])


@_rule("zeros_like ones_like full_like empty_like new_zeros new_ones new_full new_empty")
def _constant(walk: UnitWalk, node: fx.Node, args: dict[str, Any]) -> None:
    """Only the shape counts."""


@_rule("fill")
def _filled(walk: UnitWalk, node: fx.Node, args: dict[str, Any]) -> Labels:
    value = args["value"]
    return (
        walk.of(value).expand(node.meta["val"].shape) if isinstance(value, fx.Node) and walk.values[value] is not None else None
    )


@_rule(
    """view _unsafe_view view_copy reshape flatten unflatten permute transpose t mT movedim squeeze unsqueeze expand expand_as
    broadcast_to repeat tile repeat_interleave slice select narrow split split_with_sizes chunk unbind unsafe_split unsafe_chunk
    unsafe_split_with_sizes cat stack flip roll rot90 diagonal unfold pixel_shuffle pixel_unshuffle channel_shuffle
    slice_scatter select_scatter diagonal_scatter copy"""
)
def _moved(walk: UnitWalk, node: fx.Node, args: dict[str, Any]) -> Any:
    """The labels move as the entries do."""

    positional: Any = fx.map_arg(node.args, lambda each: walk.of(each).contiguous())
    moved = node.target(*positional, **node.kwargs)  # type: ignore[operator]
    return tuple(moved) if isinstance(moved, (list, tuple)) else moved


@_rule("pad constant_pad_nd")
def _padded(walk: UnitWalk, node: fx.Node, args: dict[str, Any]) -> Tensor:
    """A constant that fills belongs to no unit."""
    labels = walk.of(args["self"]).double()
    return F.pad(labels, list(args["pad"]), mode=args.get("mode", "constant")).long()


_PLACES = {
    name: places
    for places, names in (
        (
            1,
            """max_pool1d max_pool1d_with_indices avg_pool1d adaptive_avg_pool1d adaptive_max_pool1d upsample_nearest1d
            _upsample_nearest_exact1d upsample_linear1d reflection_pad1d replication_pad1d""",
        ),
        (
            2,
            """max_pool2d max_pool2d_with_indices avg_pool2d adaptive_avg_pool2d _adaptive_avg_pool2d adaptive_max_pool2d
            upsample_nearest2d _upsample_nearest_exact2d upsample_bilinear2d upsample_bicubic2d reflection_pad2d
            replication_pad2d""",
        ),
        (
            3,
            """max_pool3d max_pool3d_with_indices avg_pool3d adaptive_avg_pool3d _adaptive_avg_pool3d adaptive_max_pool3d
            upsample_nearest3d upsample_trilinear3d reflection_pad3d replication_pad3d""",
        ),
    )
    for name in names.split()
}
"""operators within one channel -> the number of its last axes that they mix"""


@_rule(" ".join(_PLACES))
def _within_places(walk: UnitWalk, node: fx.Node, args: dict[str, Any]) -> Any:
    """Channels stay apart, places mix: every place must hold the same units."""
    labels = walk.of(_subject(args))
    first = labels
    for place in range(1, _PLACES[packet(node.target)] + 1):
        first = first.narrow(-place, 0, 1)
    value = node.meta["val"]
    shape = value.shape if isinstance(value, Tensor) else value[0].shape
    if bool((labels != first).any()):
        walk.lose(labels, f"{walk.where} mixes it with others")
        first = no_unit(first.shape)
    return first.expand(shape) if isinstance(value, Tensor) else (first.expand(shape),) * len(value)


@_rule("sum mean amax amin max min std var linalg_vector_norm norm logsumexp prod any all nansum nanmean argmax argmin")
def _reduced(walk: UnitWalk, node: fx.Node, args: dict[str, Any]) -> Any:
    """What is summed up must be one unit's."""
    labels = walk.of(_subject(args))
    if "other" in args:  # the larger of two tensors
        return _pointwise(walk, node, args)
    dims = args.get("dim")
    dims = list(range(labels.ndim)) if dims in (None, []) else [dims] if isinstance(dims, int) else list(dims)
    keep = bool(args.get("keepdim", False))
    low, high = (labels.amin(dims, keep), labels.amax(dims, keep)) if labels.numel() else (no_unit(()), no_unit(()))
    if bool((low != high).any()):
        walk.lose(labels, f"{walk.where} mixes it with others")
        low = no_unit(low.shape)
    value = node.meta["val"]
    return low if isinstance(value, Tensor) else (low,) * len(value)


@_rule("cumsum cumprod cummax cummin logcumsumexp softmax _softmax log_softmax _log_softmax sort")
def _along_axis(walk: UnitWalk, node: fx.Node, args: dict[str, Any]) -> Any:
    """Entries mix along one axis: they must be one unit's."""
    labels = walk.of(_subject(args))
    dim = args.get("dim", -1)
    if bool((labels != labels.narrow(dim, 0, 1)).any()):
        walk.lose(labels, f"{walk.where} mixes it with others")
        labels = no_unit(labels.shape)
    value = node.meta["val"]
    return labels if isinstance(value, Tensor) else (labels,) * len(value)


# Layers: they consume the units of their input and produce new ones.
@_rule("linear")
def _linear(walk: UnitWalk, node: fx.Node, args: dict[str, Any]) -> Tensor:
    return _layer(walk, node, args["input"], -1, args["weight"], args["bias"], summed=1, weight_axis=0, axis=-1)


@_rule("matmul mm addmm")
def _times_matrix(walk: UnitWalk, node: fx.Node, args: dict[str, Any]) -> Tensor:
    """X W (+ b) with a matrix of parameters, [in, out]; any other product mixes what goes into it."""
    added = packet(node.target) == "addmm"
    x: fx.Node = args["mat1" if added else "self"]
    bias: fx.Node | None = args["self"] if added else None
    weight: fx.Node = args["other"] if "other" in args else args["mat2"]
    plain = bias is None or (args["alpha"] == args["beta"] == 1 and bias.meta["val"].ndim == 1)
    if not plain or weight.name not in walk.traced.parameters or weight.meta["val"].ndim != 2:
        for each in node.all_input_nodes:
            walk.lose(walk.values[each], f"{walk.where} mixes it with others")
        return no_unit(node.meta["val"].shape)
    return _layer(walk, node, x, -1, weight, bias, summed=0, weight_axis=1, axis=-1)


def _layer(
    walk: UnitWalk, node: fx.Node, x: fx.Node, x_axis: int, weight: Any, bias: Any, *, summed: int, weight_axis: int, axis: int
) -> Tensor:
    line = walk.consumed(walk.of(x), x_axis, weight)
    if line is not None:
        dims = weight.meta["val"].ndim
        walk.uses.append(Use(walk.traced.parameters[weight.name], "consumer", spread(line, summed, dims)))
    return walk.new_units(node, weight, bias, weight_axis, axis)


_TRANSPOSED = ("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")


@_rule("conv1d conv2d conv3d convolution conv_transpose1d conv_transpose2d conv_transpose3d")
def _convolution(walk: UnitWalk, node: fx.Node, args: dict[str, Any]) -> Tensor:
    weight, bias, groups = args["weight"], args["bias"], args["groups"]
    dims = weight.meta["val"].ndim
    channels = 1 - dims  # from the end: [channels, *places]
    transposed = args.get("transposed", packet(node.target) in _TRANSPOSED)
    line = walk.consumed(walk.of(args["input"]), channels, weight)
    if line is not None:
        name = walk.traced.parameters[weight.name]
        walk.uses.append(Use(name, "consumer", _channels_read(line, weight.meta["val"].shape, groups, transposed)))
    if transposed and groups > 1:  # a unit's incoming weights are no slice along one axis
        walk.refused.setdefault(module_path(node) or "the model", "its channels are transposed in groups")
        return no_unit(node.meta["val"].shape)
    return walk.new_units(node, weight, bias, 1 if transposed else 0, channels)


def _channels_read(line: Tensor, shape: Any, groups: int, transposed: bool) -> Tensor:
    """The label of the channel that each entry of a kernel is multiplied with."""
    if transposed:  # [in, out / groups, *places]
        return spread(line, 0, len(shape))
    if groups == 1:  # [out, in, *places]
        return spread(line, 1, len(shape))
    by_group = line.reshape(groups, -1).repeat_interleave(shape[0] // groups, 0)
    return by_group.reshape(*by_group.shape, *[1] * (len(shape) - 2))


# Normalisation of each channel by itself; what normalises over channels (layer, group, RMS norm) mixes them: not known.
@_rule(
    """batch_norm instance_norm native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_functional
    _native_batch_norm_legit_no_training cudnn_batch_norm"""
)
def _batch_norm(walk: UnitWalk, node: fx.Node, args: dict[str, Any]) -> Any:
    labels = walk.of(args["input"])
    line = along(labels, 1)
    parts = {"gain": args.get("weight"), "shift": args.get("bias")}
    reason = f"{walk.where} mixes it with others" if line is None else ""
    found: list[Use] = []
    for role, each in parts.items():
        name, complaint = (None, "") if each is None else walk.parameter(each)
        if each is not None and name is None:
            reason = f"a parameter of {walk.where} {complaint}"
        elif name is not None and line is not None:
            found.append(Use(name, role, line))
    for role, key in (("mean", "running_mean"), ("variance", "running_var")):
        name = walk.buffer(args.get(key))
        if name is not None and line is not None:
            if sum(user.op == "call_function" for user in args[key].users) > 1:
                reason = f"the statistics of {walk.where} are used in more than one place"
            found.append(Use(name, role, line))
    if reason:
        walk.lose(labels, reason)
        labels = no_unit(labels.shape)
    else:
        walk.uses += found
    value = node.meta["val"]
    if isinstance(value, Tensor):
        return labels
    return (labels, *(no_unit(each.shape) for each in value[1:]))
