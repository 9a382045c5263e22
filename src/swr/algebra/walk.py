"""One walk over a traced graph, shared by all that interpret it: scale forms, units and Lipschitz constants.

The walk goes through the nodes in order. It says what a placeholder stands for, binds the arguments of every operator to the
names of its own schema (defaults filled in), picks the items of tuples and folds constants. What a tensor *means* is up to
the :class:`Visitor`: a log-scale, the units of its entries, a Lipschitz constant.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, fx

from swr.algebra.graph import Traced, module_path


@dataclass(frozen=True)
class Source:
    """What a placeholder stands for.

    name: of the parameter or buffer in the model, of the placeholder otherwise.
    tensor: the value of a constant.
    """

    kind: Literal["parameter", "buffer", "constant", "input"]
    name: str
    tensor: Tensor | None = None


class Visitor(ABC):
    """What a tensor of the graph means to one interpreter; its values are whatever it likes."""

    values: dict[fx.Node, Any]
    """of the nodes so far; None for what is no tensor (a branch of ``torch.cond``)"""

    @abstractmethod
    def placeholder(self, node: fx.Node, source: Source) -> Any:
        """The value of a parameter, buffer, constant or input."""

    @abstractmethod
    def is_constant(self, value: Any) -> bool:
        """Whether nothing that the interpreter follows can change a tensor of this value."""

    @abstractmethod
    def fold(self, node: fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The value of an operator on constants."""

    @abstractmethod
    def call(self, node: fx.Node, arguments: dict[str, Any]) -> Any:
        """The value of any other operator, from its arguments by the names of its schema; a tuple for several outputs."""

    def argument(self, node: fx.Node, value: Any) -> Any:
        """What stands for a tensor among the arguments of :meth:`call`: its value."""
        return value

    def item(self, node: fx.Node, whole: Any, index: Any) -> Any:
        """One of several outputs."""
        return whole[index] if isinstance(whole, tuple) else whole


def walk(traced: Traced, visitor: Visitor) -> dict[fx.Node, Any]:
    """The visitor's value of every node of the graph."""
    values = visitor.values
    for node in traced.graph.nodes:
        if node.op == "placeholder":
            values[node] = visitor.placeholder(node, source_of(node, traced))
        elif node.op == "call_function":
            values[node] = _call(node, values, visitor)
        else:
            values[node] = None
    return values


def _call(node: fx.Node, values: Mapping[fx.Node, Any], visitor: Visitor) -> Any:
    if node.target is operator.getitem:
        whole, index = fx.map_arg(node.args, lambda n: values[n])
        return visitor.item(node, whole, index)
    inputs = node.all_input_nodes
    runnable = not is_random(node) and all(n.op != "get_attr" for n in inputs)
    if runnable and all(visitor.is_constant(values[n]) for n in inputs):
        args: Any = fx.map_arg(node.args, lambda n: values[n])
        kwargs: Any = fx.map_arg(node.kwargs, lambda n: values[n])
        return visitor.fold(node, args, kwargs)
    arguments: Any = fx.map_arg(bind(node), lambda n: visitor.argument(n, values[n]))
    return visitor.call(node, dict(arguments))


def source_of(node: fx.Node, traced: Traced) -> Source:
    """What a placeholder stands for."""
    if node.name in traced.parameters:
        return Source("parameter", traced.parameters[node.name])
    if node.name in traced.buffers:
        return Source("buffer", traced.buffers[node.name])
    if node.name in traced.constants:
        return Source("constant", node.name, traced.constants[node.name])
    return Source("input", node.name)


def bind(node: fx.Node) -> dict[str, Any]:
    """The arguments of an operator by the names of its schema, in the schema's order, defaults included.

    What has no schema (Python's own operators, ``torch.cond``) gets its arguments numbered.
    """
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return {**{str(i): value for i, value in enumerate(node.args)}, **node.kwargs}
    given = dict(zip((a.name for a in schema.arguments), node.args, strict=False)) | node.kwargs
    return {a.name: given.get(a.name, a.default_value) for a in schema.arguments if a.name in given or a.has_default_value()}


def packet(target: Any) -> str:
    """The name of an operator without its overload: ``relu``, ``my_library.my_operator``.

    >>> packet(torch.ops.aten.add.Tensor)
    'add'
    """
    return str(getattr(target, "overloadpacket", target)).removeprefix("aten.")


def is_random(node: fx.Node) -> bool:
    """Whether the operator draws random numbers."""
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())


def place(node: fx.Node) -> str:
    """The operator and where in the model it is, for messages: ``relu at layers.3``."""
    return f"{packet(node.target)} at {module_path(node) or 'the model'}"
