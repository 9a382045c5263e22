"""From which part of which parameter the entries of a tensor come, along one of its axes.

Every tensor that is computed from one parameter is followed for as long as the place along one of its axes says from which
part of the parameter its entries come: through products, views and slices. Where it is then used as a whole, it uses an
interval of the parameter.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import torch
from torch import fx

from swr.algebra.graph import Traced
from swr.algebra.walk import bind, packet


class Start(NamedTuple):
    """Where in a parameter a span begins."""

    parameter: str
    axis: int
    start: int


@dataclass(frozen=True)
class Span:
    """Which part of its parameters the entries of a tensor come from.

    Place i along ``axis`` comes from entries ``start + i·step`` to ``start + (i+1)·step`` of each source, along its axis.
    Without an axis the whole tensor comes from ``step`` entries.
    """

    axis: int | None
    size: int
    step: int
    sources: tuple[Start, ...]

    @property
    def length(self) -> int:
        """How many entries of each parameter it spans."""
        return self.size * self.step

    def cut(self, first: int, last: int) -> Span:
        """The places from ``first`` to ``last``."""
        moved = tuple(source._replace(start=source.start + first * self.step) for source in self.sources)
        return replace(self, size=last - first, sources=moved)


@dataclass(frozen=True)
class Step:
    """How a tensor comes about: from one other, entry by entry, or as a product or sum of several.

    Attributes:
        span: of the tensor.
        inputs: the tensors that are followed, with their spans, by the names of the operator's schema.
        moves: whether it only moves entries, or is homogeneous in each.
        frozen: constants that are added and cut along, by the names of the schema.
    """

    span: Span
    inputs: dict[str, tuple[fx.Node, Span]]
    moves: bool
    frozen: dict[str, fx.Node] = field(default_factory=dict)


@dataclass
class Region:
    """All tensors that are followed, and the intervals of the parameters that are used as a whole.

    Attributes:
        traced: the graph.
        trained: the parameters to follow.
        steps: how each tensor that is followed comes about, one step for each of its spans.
        items: the same of operators with several outputs, one list for each.
        used: the intervals that are used as a whole, by parameter and axis.
        whole: the tensors that something uses as a whole, for one of their spans.
        joined: spans of several parameters, whose blocks must fit.
    """

    traced: Traced
    trained: Collection[str]
    steps: dict[fx.Node, list[Step]] = field(default_factory=dict)
    items: dict[fx.Node, list[list[Step]]] = field(default_factory=dict)
    used: dict[tuple[str, int], set[tuple[int, int]]] = field(default_factory=dict)
    whole: dict[tuple[fx.Node, Span], None] = field(default_factory=dict)
    joined: list[Span] = field(default_factory=list)

    def __post_init__(self) -> None:
        for node in self.traced.graph.nodes:
            if node.op == "placeholder":
                self._placeholder(node)
            elif any(n in self.steps or n in self.items for n in node.all_input_nodes):
                self._call(node)

    def spans(self, node: Any) -> list[Span]:
        """What is known of a tensor, one span for each axis that is followed."""
        return [step.span for step in self.steps.get(node, [])] if isinstance(node, fx.Node) else []

    def is_frozen(self, node: fx.Node) -> bool:
        """Whether it is a parameter that is a constant."""
        return node.name in self.traced.parameters and self.traced.parameters[node.name] not in self.trained

    def _placeholder(self, node: fx.Node) -> None:
        name = self.traced.parameters.get(node.name)
        if name is not None and name in self.trained:
            shape = node.meta["val"].shape
            self.steps[node] = [
                Step(Span(axis, size, 1, (Start(name, axis, 0),)), {}, moves=False) for axis, size in enumerate(shape)
            ]

    def _call(self, node: fx.Node) -> None:
        if node.op == "call_function" and node.meta.get("val") is None:  # an assertion: it computes nothing
            return
        if node.target is operator.getitem and node.args[0] in self.items:
            found: list[Step] = self.items[node.args[0]][node.args[1]]  # type: ignore[index]
            self.steps[node] = found
            return
        arguments = bind(node) if node.op == "call_function" else {}
        rule = _RULES.get(packet(node.target)) if _once(node) else None
        made = rule(self, node, arguments) if rule is not None else []
        if made and isinstance(made[0], list):
            self.items[node] = made
            made = [step for each in made for step in each]
        elif made:
            self.steps[node] = made
        continued = {read for step in made for read in step.inputs.values()}
        self.joined += [step.span for step in made if len(step.span.sources) > 1]
        for n in node.all_input_nodes:
            for span in self.spans(n):
                if (n, span) not in continued:
                    self._use(n, span)

    def _use(self, node: fx.Node, span: Span) -> None:
        self.whole[node, span] = None
        for source in span.sources:
            self.used.setdefault((source.parameter, source.axis), set()).add((source.start, source.start + span.length))


def _once(node: fx.Node) -> bool:
    """Whether the operator reads each of its tensors once, and returns numbers with a scale."""
    nodes: list[fx.Node] = []
    fx.map_arg((node.args, node.kwargs), nodes.append)
    value = node.meta.get("val")
    tensors = value if isinstance(value, (tuple, list)) else [value]
    floating = all(isinstance(t, torch.Tensor) and t.is_floating_point() for t in tensors)
    return floating and len(nodes) == len(set(nodes))


# One rule per kind of operator: the steps it makes, one list per output where it has several.

_Rule = Callable[[Region, fx.Node, dict[str, Any]], list[Any]]
_RULES: dict[str, _Rule] = {}


def _rule(names: str) -> Callable[[_Rule], _Rule]:
    def register(function: _Rule) -> _Rule:
        _RULES.update(dict.fromkeys(names.split(), function))
        return function

    return register


def _moved(region: Region, subject: Any, where: Callable[[Span], Span | None]) -> list[Step]:
    found = [(span, where(span)) for span in region.spans(subject) if span.axis is not None]
    return [Step(new, {"self": (subject, old)}, moves=True) for old, new in found if new is not None]


@_rule("alias clone contiguous detach to _to_copy dropout relu leaky_relu neg mul div")
def _entrywise(region: Region, node: fx.Node, arguments: dict[str, Any]) -> list[Step]:
    """Of one tensor, or with a number."""
    subject, *others = node.all_input_nodes
    same_shape = node.meta["val"].shape == subject.meta["val"].shape
    if others or not same_shape or arguments.get("rounding_mode") is not None:
        return []
    return _moved(region, subject, lambda span: span)


@_rule("view _unsafe_view view_copy reshape flatten unflatten unsqueeze squeeze")
def _reshape(region: Region, node: fx.Node, arguments: dict[str, Any]) -> list[Step]:
    subject = arguments["self"]
    old, new = subject.meta["val"].shape, node.meta["val"].shape
    return _moved(region, subject, lambda span: _reshaped(span, old, new))


def _reshaped(span: Span, old: Sequence[int], new: Sequence[int]) -> Span | None:
    """The axis after a reshape: as it was, or the first of those it was divided into; None if it was joined with another."""
    assert span.axis is not None
    for axis, size in enumerate(new):
        if size > 1 and math.prod(new[:axis]) == math.prod(old[: span.axis]):
            inner, rest = 1, span.size // size
            for following in new[axis + 1 :]:
                inner *= following if inner < rest else 1
            return replace(span, axis=axis, size=size, step=span.step * rest) if size * inner == span.size else None
    return None


@_rule("transpose t permute")
def _permute(region: Region, node: fx.Node, arguments: dict[str, Any]) -> list[Step]:
    rank = node.meta["val"].ndim
    order = list(range(rank))
    if "dims" in arguments:
        order = [d % rank for d in arguments["dims"]]
    elif rank > 1:
        first, second = arguments.get("dim0", 0) % rank, arguments.get("dim1", 1) % rank
        order[first], order[second] = second, first
    return _moved(region, arguments["self"], lambda span: replace(span, axis=order.index(axis_of(span))))


@_rule("slice narrow")
def _slice(region: Region, node: fx.Node, arguments: dict[str, Any]) -> list[Step]:
    subject = arguments["self"]
    shape = subject.meta["val"].shape
    dim = arguments["dim"] % len(shape)
    start, end, stride = arguments.get("start"), arguments.get("end"), arguments.get("step", 1)
    if "length" in arguments:
        if not isinstance(start, int):
            return []
        start = start % shape[dim] if shape[dim] else 0
        end = start + arguments["length"]
    first, last, _ = slice(start, end).indices(shape[dim])
    return _moved(region, subject, lambda span: _taken(span, dim, first, last) if stride == 1 else None)


@_rule("select")
def _select(region: Region, node: fx.Node, arguments: dict[str, Any]) -> list[Step]:
    shape = arguments["self"].meta["val"].shape
    dim = arguments["dim"] % len(shape)
    index = arguments["index"]
    return _moved(region, arguments["self"], lambda span: _picked(span, dim, index % shape[dim]))


@_rule("split split_with_sizes unsafe_split unsafe_split_with_sizes chunk unsafe_chunk tensor_split")
def _split(region: Region, node: fx.Node, arguments: dict[str, Any]) -> list[list[Step]]:
    """The sizes of the parts are those of the outputs."""
    dim = arguments["dim"] % arguments["self"].meta["val"].ndim
    ends = list(accumulate((part.shape[dim] for part in node.meta["val"]), initial=0))
    return _parted(region, arguments["self"], lambda span: [_taken(span, dim, *part) for part in pairwise(ends)], len(ends) - 1)


@_rule("unbind")
def _unbind(region: Region, node: fx.Node, arguments: dict[str, Any]) -> list[list[Step]]:
    dim = arguments["dim"] % arguments["self"].meta["val"].ndim
    outputs = len(node.meta["val"])
    return _parted(region, arguments["self"], lambda span: [_picked(span, dim, i) for i in range(outputs)], outputs)


def _parted(region: Region, subject: Any, where: Callable[[Span], Sequence[Span | None]], outputs: int) -> list[list[Step]]:
    """The steps of every output; a span that one of them loses is used as a whole."""
    found: list[list[Step]] = [[] for _ in range(outputs)]
    for span in region.spans(subject):
        parts = where(span) if span.axis is not None else [None]
        for each, part in zip(found, parts, strict=False):
            if part is not None and None not in parts:
                each.append(Step(part, {"self": (subject, span)}, moves=True))
    return found


def _taken(span: Span, dim: int, first: int, last: int) -> Span | None:
    if dim != span.axis:
        return span
    return span.cut(first, last) if last > first else None


def _picked(span: Span, dim: int, index: int) -> Span:
    axis = axis_of(span)
    if dim == axis:
        return replace(span.cut(index, index + 1), axis=None)
    return replace(span, axis=axis - 1 if dim < axis else axis)


@_rule("linear")
def _linear(region: Region, node: fx.Node, arguments: dict[str, Any]) -> list[Step]:
    return _layer(region, node, arguments, ("weight", 2, 0), "bias", node.meta["val"].ndim - 1)


@_rule("conv1d conv2d conv3d")
def _convolution(region: Region, node: fx.Node, arguments: dict[str, Any]) -> list[Step]:
    rank = arguments["weight"].meta["val"].ndim
    return _layer(region, node, arguments, ("weight", rank, 0), "bias", node.meta["val"].ndim - rank + 1)


@_rule("addmm")
def _addmm(region: Region, node: fx.Node, arguments: dict[str, Any]) -> list[Step]:
    return _layer(region, node, arguments, ("mat2", 2, 1), "self", 1)


@_rule("mm")
def _mm(region: Region, node: fx.Node, arguments: dict[str, Any]) -> list[Step]:
    return _layer(region, node, arguments, ("mat2", 2, 1), None, 1)


@_rule("matmul")
def _matmul(region: Region, node: fx.Node, arguments: dict[str, Any]) -> list[Step]:
    return _layer(region, node, arguments, ("other", 2, 1), None, node.meta["val"].ndim - 1)


@_rule("embedding")
def _embedding(region: Region, node: fx.Node, arguments: dict[str, Any]) -> list[Step]:
    return _layer(region, node, arguments, ("weight", 2, 1), None, node.meta["val"].ndim - 1)


def _layer(
    region: Region, node: fx.Node, arguments: dict[str, Any], weight: tuple[str, int, int], shift: str | None, axis: int
) -> list[Step]:
    """A product whose output has one axis of the weight as its own, and to which a vector along it may be added.

    Args:
        region: what is followed.
        node: the operator.
        arguments: of it.
        weight: the name of the argument, the number of its axes, and the axis.
        shift: the name of the vector's argument.
        axis: where the weight's axis is in the output.
    """
    name, rank, along = weight
    factor, added = arguments[name], arguments.get(shift) if shift is not None else None
    spans = [span for span in region.spans(factor) if span.axis == along]
    if factor.meta["val"].ndim != rank or len(spans) != 1:
        return []
    inputs, sources, frozen = {name: (factor, spans[0])}, spans[0].sources, dict[str, fx.Node]()
    if added is not None and shift is not None and region.is_frozen(added) and added.meta["val"].ndim == 1:
        frozen[shift] = added
    elif added is not None and shift is not None:
        fitting = [span for span in region.spans(added) if _fits(span, spans[0])] if added.meta["val"].ndim == 1 else []
        if len(fitting) != 1:
            return []
        inputs[shift] = added, fitting[0]
        sources += fitting[0].sources
    return [Step(replace(spans[0], axis=axis, sources=sources), inputs, moves=False, frozen=frozen)]


@_rule("add")
def _add(region: Region, node: fx.Node, arguments: dict[str, Any]) -> list[Step]:
    """Two tensors that are followed along the same axis, counted from the last."""
    one, other, rank = arguments["self"], arguments["other"], node.meta["val"].ndim
    found = []
    for a in region.spans(one):
        for b in region.spans(other):
            fits = _fits(a, b) and axis_of(a) - one.meta["val"].ndim == axis_of(b) - other.meta["val"].ndim
            if fits and {s.parameter for s in a.sources}.isdisjoint(s.parameter for s in b.sources):
                span = replace(a, axis=rank - one.meta["val"].ndim + axis_of(a), sources=a.sources + b.sources)
                found.append(Step(span, {"self": (one, a), "other": (other, b)}, moves=False))
    return found if len(found) == 1 else []


def _fits(span: Span, other: Span) -> bool:
    return span.axis is not None and other.axis is not None and (span.size, span.step) == (other.size, other.step)


def axis_of(span: Span) -> int:
    """The axis of a span that has one."""
    assert span.axis is not None
    return span.axis
