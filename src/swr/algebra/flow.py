"""Follow the scale of every tensor through a traced graph, and collect what must hold.

:class:`Flow` is what a rule talks to: it reads forms, demands equations, and says which parameters multiply.
:func:`follow` runs the rules over a graph.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import fx

from swr.algebra.forms import ANY, ZERO, Equation, Form, Value, constant
from swr.algebra.graph import Traced, module_path

GUARD = 1e-4
"""An added constant up to this size only guards against division by zero; it counts as nothing."""

_FOLDABLE = 1 << 24  # entries; larger constants are not evaluated, only known to be constant


@dataclass
class Flow:
    """The demands collected so far; the argument of every rule.

    inhomogeneous: what happens to gelu and friends: "hold", or "pass" to treat them as homogeneous.
    """

    inhomogeneous: str = "hold"
    equations: list[Equation] = field(default_factory=list)
    weights: dict[str, None] = field(default_factory=dict)
    seen: dict[str, None] = field(default_factory=dict)
    statistics: dict[str, Form] = field(default_factory=dict)
    restricting: list[str] = field(default_factory=list)
    where: str = ""

    def same(self, *values: Any) -> Form | None:
        """The common form of tensors that are added, joined or compared: all must be equal.

        A number counts as a constant; zeros and infinities fit any form.
        """
        common: Form | None = ANY
        for value in _tensors(values, numbers=True):
            form = value.form if isinstance(value, Value) else _number_form(value)
            if form is ANY:
                continue
            if common is ANY:
                common = form
            else:
                self.demand(common, form)
        return common

    def product(self, *values: Any) -> Form | None:
        """The form of a product: the sum of the forms. Parameters among the factors are weights."""
        factors = _tensors(values)
        if sum(not v.is_constant for v in factors) > 1:
            self.weight(*factors)
        total: Form | None = ZERO
        for v in factors:
            total = ANY if total is ANY or v.form is ANY else total + v.form
        return total

    def power(self, value: Value, exponent: float) -> Form | None:
        """The form of a power: k times the form."""
        if exponent == 0:
            return ZERO
        return ANY if value.form is ANY else value.form * exponent

    def hold(self, *values: Any) -> Form:
        """All forms must be 0: what an operator that is not homogeneous, or not known, demands."""
        before = len(self.equations)
        for value in _tensors(values):
            self.weight(value)
            self.demand(value.form, ZERO)
        if len(self.equations) > before:
            self.restricting.append(self.where)
        return ZERO

    def weight(self, *values: Value) -> None:
        """These parameters multiply something: SWR has a target for them."""
        for value in values:
            self.weights.update(dict.fromkeys(sorted(value.leaves)))

    def follow(self, buffer: Value | None, form: Form | None) -> None:
        """A running statistic that must be scaled along, by ``form``."""
        name = buffer.buffer if buffer is not None else None
        if name is None or form is ANY:
            return
        if name in self.statistics:
            self.demand(self.statistics[name], form)
        else:
            self.statistics[name] = form

    def demand(self, left: Form | None, right: Form | None) -> None:
        """Left and right must be equal."""
        if left is ANY or right is ANY:
            return
        difference = left - right
        if not difference.is_zero:
            self.equations.append(Equation(difference, self.where))


Rule = Callable[..., Any]


def follow(
    traced: Traced,
    flow: Flow,
    lookup: Callable[[Any], Rule | None],
    *,
    frozen: Mapping[str, torch.Tensor],
    buffers: Mapping[str, torch.Tensor],
) -> Form | None:
    """Run the rules over the graph; returns the form of the output.

    lookup: operator -> its rule, or None.
    frozen: the parameters that are constants, by name.
    buffers: the model's buffers by name.
    """
    values: dict[fx.Node, Any] = {}
    for node in traced.graph.nodes:
        if node.op == "placeholder":
            values[node] = _placeholder(node, traced, flow, frozen, buffers)
        elif node.op == "call_function":
            values[node] = _call(node, values, flow, lookup)
        else:  # a branch of torch.cond and the like, which holds what goes into it
            values[node] = None
    for name, node in traced.mutated.items():
        flow.where = f"buffer {name} keeps its next value"
        for value in _tensors([values[node]]):
            flow.demand(value.form, flow.statistics.get(name, ZERO))
    _statistics_used_elsewhere(traced, flow)
    flow.where = "all outputs share one constant"
    return flow.same(*[values[n] for n in traced.outputs if _is_floating(n)])


def _placeholder(
    node: fx.Node,
    traced: Traced,
    flow: Flow,
    frozen: Mapping[str, torch.Tensor],
    buffers: Mapping[str, torch.Tensor],
) -> Value:
    if (name := traced.parameters.get(node.name)) is not None:
        if name in frozen:
            return constant(frozen[name])
        if node.users:
            flow.seen[name] = None
        return Value(Form.of(name), leaves=frozenset([name]), pure=True)
    if (name := traced.buffers.get(node.name)) is not None:
        return _buffer(name, None if name in traced.mutated else buffers.get(name))
    if node.name in traced.constants:
        return constant(traced.constants[node.name])
    return Value(ZERO)


def _buffer(name: str, tensor: torch.Tensor | None) -> Value:
    """A mask of zeros and infinities fits any form; plain zeros may be a running value and are not trusted to stay."""
    if tensor is not None and not tensor.is_meta and bool(torch.isinf(tensor).any()):
        return replace(constant(tensor), buffer=name)
    return Value(ZERO, pure=True, buffer=name)


def _call(node: fx.Node, values: Mapping[fx.Node, Any], flow: Flow, lookup: Callable[[Any], Rule | None]) -> Any:
    args: Any = fx.map_arg(node.args, lambda n: values[n])
    kwargs: Any = fx.map_arg(node.kwargs, lambda n: values[n])
    if node.target is operator.getitem:
        picked = args[0][args[1]] if isinstance(args[0], tuple) else args[0]
        return picked if _is_floating(node) else Value(ZERO, picked.leaves, picked.pure)
    inputs = _tensors([args, kwargs])
    if all(v.is_constant for v in inputs):
        return constant(_fold(node, args, kwargs))
    flow.where = f"{_name(node.target)} at {module_path(node) or 'the model'}"
    rule = lookup(node.target)
    if rule is not None:
        result = rule(flow, *args, **kwargs)
    elif node.meta.get("val") is None:  # an assertion: it computes nothing
        return None
    else:
        result = flow.hold(*inputs)
    if isinstance(result, Form) and not result.is_zero and _counts(node):
        result = flow.hold(*inputs)  # a number cast to an integer: its scale is lost in the rounding
    pure = all(v.pure for v in inputs)
    leaves = frozenset().union(*(v.leaves for v in inputs)) if pure else frozenset()
    if isinstance(result, tuple):
        return tuple(Value(form, leaves, pure) for form in result)
    return Value(result if _is_floating(node) else ZERO, leaves, pure)


def _fold(node: fx.Node, args: Any, kwargs: Any) -> torch.Tensor | None:
    """The value of a constant expression, where it is cheap to know."""
    known = _tensors([args, kwargs])
    if any(v.tensor is None or v.tensor.is_meta or v.tensor.numel() > _FOLDABLE for v in known):
        return None
    shape = node.meta.get("val")
    if not isinstance(shape, torch.Tensor) or shape.numel() > _FOLDABLE or shape.device.type == "meta":
        return None
    if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
        return None
    args, kwargs = _map(args, lambda v: v.tensor), _map(kwargs, lambda v: v.tensor)
    with torch.no_grad():
        result = node.target(*args, **kwargs)  # type: ignore[operator]
    return result if isinstance(result, torch.Tensor) else None


def _statistics_used_elsewhere(traced: Traced, flow: Flow) -> None:
    """A running statistic that something other than its normalisation reads may not be scaled."""
    for node in traced.graph.nodes:
        name = traced.buffers.get(node.name) if node.op == "placeholder" else None
        if name in flow.statistics and not all("norm" in str(user.target) for user in node.users):
            flow.where = f"{name} is read outside its normalisation layer"
            flow.demand(flow.statistics[name], ZERO)


def _tensors(tree: Any, *, numbers: bool = False) -> list[Any]:
    """The values in nested arguments, in order; with ``numbers``, Python numbers too."""
    if isinstance(tree, Value):
        return [tree]
    if isinstance(tree, Mapping):
        tree = tree.values()
    if isinstance(tree, (str, bytes)) or not isinstance(tree, Iterable):
        return [tree] if numbers and isinstance(tree, (int, float)) else []
    return [leaf for branch in tree for leaf in _tensors(branch, numbers=numbers)]


def _map(tree: Any, function: Callable[[Value], Any]) -> Any:
    if isinstance(tree, Value):
        return function(tree)
    if isinstance(tree, Mapping):
        return {key: _map(branch, function) for key, branch in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)(_map(branch, function) for branch in tree)
    return tree


def _number_form(number: float) -> Form | None:
    return ANY if abs(number) <= GUARD or math.isinf(number) else ZERO


def _is_floating(node: fx.Node) -> bool:
    value = node.meta.get("val")
    if isinstance(value, (tuple, list)):
        return True
    return isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())


def _counts(node: fx.Node) -> bool:
    """Whether the result is a tensor of integers."""
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and not _is_floating(node) and value.dtype is not torch.bool


def _name(target: Any) -> str:
    return str(getattr(target, "overloadpacket", target)).removeprefix("aten.")
