"""Follow the scale of every tensor through a traced graph, and collect what must hold.

:class:`Flow` is what a rule talks to: it reads forms, demands equations, and says which parameters multiply.
:func:`follow` runs the rules over a graph.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import fx

from swr.algebra.calling import Rule, call_rule
from swr.algebra.forms import ANY, ZERO, Equation, Form, Scale, Value, constant, settled
from swr.algebra.graph import Traced, module_path
from swr.algebra.walk import Source, Visitor, bind, packet, place, walk

GUARD = 1e-4
"""An added constant up to this size only guards against division by zero; it counts as nothing."""

Inhomogeneous = Literal["hold", "pass", "raise", "free"]

_FOLDABLE = 1 << 24  # entries; larger constants are not evaluated, only known to be constant


@dataclass
class Flow:
    """The demands collected so far; the argument of every rule.

    Attributes:
        inhomogeneous: what happens to non-homogeneous activations (GELU, SiLU, tanh): "pass" treats them as homogeneous.
        statistics: running statistics and the form that each follows.
        readers: the operators that follow them.
    """

    inhomogeneous: Inhomogeneous = "hold"
    equations: list[Equation] = field(default_factory=list)
    weights: dict[str, None] = field(default_factory=dict)
    seen: dict[str, None] = field(default_factory=dict)
    statistics: dict[str, Form] = field(default_factory=dict)
    readers: set[tuple[str, fx.Node]] = field(default_factory=set)
    restricting: list[str] = field(default_factory=list)
    where: str = ""
    node: fx.Node | None = None

    def same(self, *values: Any) -> Scale:
        """The common form of tensors that are added, joined or compared: all must be equal.

        A number counts as a constant; zeros and infinities fit any form.
        """
        common: Scale = ANY
        for form in forms_in(values):
            if common is ANY:
                common = form
            else:
                self.demand(common, form)
        return common

    def product(self, *values: Any) -> Scale:
        """The form of a product: the sum of the forms. Parameters among the factors are weights."""
        factors: list[Value] = values_in(values)
        if sum(not v.is_constant for v in factors) > 1:
            self.weight(*factors)
        total: Form = ZERO
        for v in factors:
            if v.form is ANY:
                return ANY
            total = total + v.form
        return total

    def power(self, value: Value, exponent: float) -> Scale:
        """The form of a power: k times the form."""
        if exponent == 0:
            return ZERO
        return ANY if value.form is ANY else value.form * exponent

    def hold(self, *values: Any) -> Form:
        """All forms must be 0: what an operator that is not homogeneous, or not known, demands."""
        before = len(self.equations)
        for value in values_in(values):
            self.weight(value)
            self.demand(value.form, ZERO, fixes=True)
        if len(self.equations) > before:
            self.restricting.append(self.where)
        return ZERO

    def hold_scaled(self, *values: Any) -> None:
        """Hold those of the values whose scale can change; the others are not touched."""
        self.hold(*(v for v in values_in(values) if v.form is not ANY and not v.form.is_zero))

    def weight(self, *values: Value) -> None:
        """These parameters multiply something: SWR has a target for them."""
        for value in values:
            self.weights.update(dict.fromkeys(sorted(value.leaves)))

    def shape_of(self, argument: str) -> torch.Size:
        """The shape of a tensor that the operator at hand reads, by the name of the argument."""
        assert self.node is not None
        shape: torch.Size = bind(self.node)[argument].meta["val"].shape
        return shape

    def reads(self, output: int) -> bool:
        """Whether anything reads this one of the outputs of the operator at hand."""
        users = self.node.users if self.node is not None else ()
        return any(user.target is operator.getitem and user.args[1] == output and user.users for user in users)

    def follow(self, buffer: Value | None, form: Scale) -> None:
        """A running statistic that must be scaled along, by ``form``; what is no buffer must have that form already."""
        if buffer is None or form is ANY:
            return
        name = buffer.buffer
        if name is None:  # a tensor of another origin: nothing scales it along
            self.weight(buffer)
            self.demand(buffer.form, form)
            return
        if self.node is not None:
            self.readers.add((name, self.node))
        if name in self.statistics:
            self.demand(self.statistics[name], form)
        else:
            self.statistics[name] = form

    def pin(self, statistic: str) -> None:
        """A running statistic that may not be scaled."""
        self.demand(self.statistics[statistic], ZERO)

    def demand(self, left: Scale, right: Scale, *, fixes: bool = False) -> None:
        """Left and right must be equal; ``fixes`` as in :class:`~swr.algebra.forms.Equation`."""
        if left is ANY or right is ANY:
            return
        difference = left - right
        if not difference.is_zero:
            self.equations.append(Equation(difference, self.where, fixes))


def follow(
    traced: Traced,
    flow: Flow,
    lookup: Callable[[Any], Rule | None],
    *,
    frozen: Mapping[str, torch.Tensor],
    buffers: Mapping[str, torch.Tensor],
) -> Form:
    """Run the rules over the graph; returns the form of the output.

    Args:
        traced: the graph.
        flow: collects what the rules demand.
        lookup: operator -> its rule, or None.
        frozen: the parameters that are constants, by name.
        buffers: the model's buffers by name.
    """
    values = walk(traced, _Scales(traced, flow, lookup, frozen, buffers))
    for name, node in traced.mutated.items():
        flow.where = f"buffer {name} keeps its next value"
        for value in values_in([values[node]]):
            flow.demand(value.form, flow.statistics.get(name, ZERO))
    _statistics_used_elsewhere(traced, flow)
    flow.where = "all outputs share one constant"
    return settled(flow.same(*[values[n] for n in traced.outputs if _is_floating(n)]))


@dataclass(frozen=True)
class _Scales(Visitor):
    """The walk's interpreter: a :class:`Value` for every tensor, a tuple of them for several outputs."""

    traced: Traced
    flow: Flow
    lookup: Callable[[Any], Rule | None]
    frozen: Mapping[str, torch.Tensor]
    buffers: Mapping[str, torch.Tensor]
    values: dict[fx.Node, Any] = field(default_factory=dict)

    def placeholder(self, node: fx.Node, source: Source) -> Value:
        if source.kind == "parameter":
            if source.name in self.frozen:
                return constant(self.frozen[source.name])
            if node.users:
                self.flow.seen[source.name] = None
            return Value(Form.of(source.name), leaves=frozenset([source.name]), pure=True)
        if source.kind == "buffer":
            return _buffer(source.name, None if source.name in self.traced.mutated else self.buffers.get(source.name))
        return constant(source.tensor) if source.kind == "constant" else Value(ZERO)

    def is_constant(self, value: Any) -> bool:
        return all(v.is_constant for v in values_in([value]))

    def fold(self, node: fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Value:
        return constant(_evaluated(node, args, kwargs))

    def item(self, node: fx.Node, whole: Any, index: Any) -> Any:
        picked = super().item(node, whole, index)
        return picked if _is_floating(node) else Value(ZERO, picked.leaves, picked.pure)

    def call(self, node: fx.Node, arguments: dict[str, Any]) -> Any:
        flow, inputs = self.flow, values_in(arguments)
        flow.where, flow.node = self._place(node), node
        rule = self.lookup(node.target)
        found: Scale | tuple[Scale, ...]
        if rule is not None:
            found = call_rule(rule, flow, node.target, arguments, _outputs(node))
        elif node.meta.get("val") is None:  # an assertion: it computes nothing
            return None
        else:
            found = flow.hold(*inputs)
        if isinstance(found, Form) and not found.is_zero and _counts(node):
            found = flow.hold(*inputs)  # a number cast to an integer: its scale is lost in the rounding
        pure = all(v.pure for v in inputs)
        leaves = frozenset().union(*(v.leaves for v in inputs)) if pure else frozenset()
        if isinstance(found, tuple):
            return tuple(Value(form, leaves, pure) for form in found)
        return Value(found if _is_floating(node) else ZERO, leaves, pure)

    def _place(self, node: fx.Node) -> str:
        """Where an operator is; an activation that is composed of operators is named too."""
        path = module_path(node)
        activation = self.traced.activations.get(path)
        return place(node) if activation is None else f"{packet(node.target)} in {activation} at {path}"


def _buffer(name: str, tensor: torch.Tensor | None) -> Value:
    """A mask of zeros and infinities fits any form; plain zeros may be a running value and are not trusted to stay."""
    if tensor is not None and not tensor.is_meta and bool(torch.isinf(tensor).any()):
        return replace(constant(tensor), buffer=name)
    return Value(ZERO, pure=True, buffer=name)


def _evaluated(node: fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor | None:
    """The value of a constant expression, where it is cheap to know."""
    if any(v.tensor is None or v.tensor.is_meta or v.tensor.numel() > _FOLDABLE for v in values_in([args, kwargs])):
        return None
    shape = node.meta.get("val")
    if not isinstance(shape, torch.Tensor) or shape.numel() > _FOLDABLE or shape.device.type == "meta":
        return None
    args, kwargs = _map(args, lambda v: v.tensor), _map(kwargs, lambda v: v.tensor)
    with torch.no_grad():
        result = node.target(*args, **kwargs)  # type: ignore[operator]
    return result if isinstance(result, torch.Tensor) else None


def _statistics_used_elsewhere(traced: Traced, flow: Flow) -> None:
    """A running statistic that anything but its normalisation layers reads may not be scaled."""
    for node in traced.graph.nodes:
        name = traced.buffers.get(node.name) if node.op == "placeholder" else None
        if name in flow.statistics and not all((name, user) in flow.readers for user in node.users):
            flow.where = f"{name} is read outside its normalisation layer"
            flow.pin(name)


def values_in(tree: Any, *, numbers: bool = False) -> list[Any]:
    """The values in nested arguments, in order; with ``numbers``, Python numbers too."""
    if isinstance(tree, Value):
        return [tree]
    if isinstance(tree, Mapping):
        tree = tree.values()
    if isinstance(tree, (str, bytes)) or not isinstance(tree, Iterable):
        return [tree] if numbers and isinstance(tree, (int, float, complex)) else []
    return [leaf for branch in tree for leaf in values_in(branch, numbers=numbers)]


def forms_in(tree: Any) -> list[Scale]:
    """The forms of the values in nested arguments; a number counts as a constant."""
    return [v.form if isinstance(v, Value) else _number_form(v) for v in values_in(tree, numbers=True)]


def _map(tree: Any, function: Callable[[Value], Any]) -> Any:
    if isinstance(tree, Value):
        return function(tree)
    if isinstance(tree, Mapping):
        return {key: _map(branch, function) for key, branch in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)(_map(branch, function) for branch in tree)
    return tree


def _number_form(number: complex) -> Scale:
    return ANY if abs(number) <= GUARD or math.isinf(abs(number)) else ZERO


def _is_floating(node: fx.Node) -> bool:
    value = node.meta.get("val")
    if isinstance(value, (tuple, list)):
        return True
    return isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())


def _outputs(node: fx.Node) -> int | None:
    """How many tensors an operator returns, if it returns several."""
    value = node.meta.get("val")
    return len(value) if isinstance(value, (tuple, list)) else None


def _counts(node: fx.Node) -> bool:
    """Whether the result is a tensor of integers."""
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and not _is_floating(node) and value.dtype is not torch.bool
