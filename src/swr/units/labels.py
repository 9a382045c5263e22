"""Which unit each entry of every tensor belongs to, followed through a traced graph.

A unit is one output of a linear layer or a channel of a convolution. Every tensor of the graph gets a tensor of labels of its
own shape: the number of the one unit that an entry is a function of, or 0. Operators that move entries around are run on
the labels themselves, so that a flatten, a permutation or a concatenation needs no rule. An operator that mixes a unit with
anything else loses it, with the reason; an unknown operator loses all that goes into it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, fx

from swr.algebra.graph import Traced, module_path
from swr.algebra.walk import Source, Visitor, place, walk

Labels = Tensor | None
"""the unit of each entry, 0 where it belongs to none; None: a constant, which belongs to none and disturbs none"""


@dataclass(frozen=True)
class Producer:
    """A layer whose outputs are units.

    node: its output; weight, bias: names of its parameters; axis: of the weight, along which the units lie.
    home: the axis of the output along which the units lie, from the end.
    first: the label of unit 0.
    """

    node: fx.Node
    weight: str
    bias: str | None
    axis: int
    home: int
    size: int
    first: int

    @property
    def name(self) -> str:
        """The layer's path in the model."""
        return self.weight.rpartition(".")[0] or self.weight


@dataclass(frozen=True)
class Use:
    """A tensor of the model that meets units: the label of each of its entries, in a shape that broadcasts to its own."""

    name: str
    role: str
    """``consumer``: it multiplies them; ``gain``, ``shift``, ``mean``, ``variance``: of a normalisation layer"""
    labels: Tensor


Rule = Callable[["UnitWalk", fx.Node, dict[str, Any]], Any]


@dataclass
class UnitWalk(Visitor):
    """What is known while the graph is gone through; the argument of every rule.

    frozen: names of the parameters that are not trained.
    lookup: node -> the rule of its operator, or None.
    """

    traced: Traced
    frozen: frozenset[str]
    lookup: Callable[[fx.Node], Rule | None]
    values: dict[fx.Node, Any] = field(default_factory=dict)
    producers: list[Producer] = field(default_factory=list)
    uses: list[Use] = field(default_factory=list)
    lost: dict[int, str] = field(default_factory=dict)
    """producer -> why its units cannot be told apart from the rest"""
    refused: dict[str, str] = field(default_factory=dict)
    """layers that have no units at all, and why"""
    where: str = ""

    def placeholder(self, node: fx.Node, source: Source) -> Labels:
        """Parameters and inputs belong to no unit; buffers that never change are constants."""
        held = source.kind == "constant" or (source.kind == "buffer" and source.name not in self.traced.mutated)
        return None if held or not _is_tensor(node) else no_unit(node.meta["val"].shape)

    def is_constant(self, value: Any) -> bool:
        """Labels of constants are None."""
        return value is None

    def fold(self, node: fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[None, ...] | None:
        """Constant again."""
        value = node.meta.get("val")
        return (None,) * len(value) if isinstance(value, (tuple, list)) else None

    def argument(self, node: fx.Node, value: Any) -> fx.Node:
        """Rules ask for more than the labels of a tensor: its shape, the name of a parameter."""
        return node

    def call(self, node: fx.Node, arguments: dict[str, Any]) -> Any:
        """What the rule says; without one, all that goes in is lost."""
        self.where = place(node)
        value = node.meta.get("val")
        if not isinstance(value, (Tensor, tuple, list)):  # a number or an assertion
            for each in tensors(node) if value is not None else ():
                self.lose(self.values[each], f"{self.where} reads a number from it")
            return None
        rule = self.lookup(node)
        if rule is not None:
            return rule(self, node, arguments)
        for each in tensors(node):
            for labels in self.values[each] if isinstance(self.values[each], tuple) else (self.values[each],):
                self.lose(labels, f"{self.where} mixes it with others, or is not known")
        return _nothing(value)

    def lose(self, labels: Labels, reason: str) -> None:
        """These units are not followed any further."""
        if labels is None:
            return
        firsts = [producer.first for producer in self.producers]
        for label in torch.unique(labels).tolist():
            if label > 0:
                self.lost.setdefault(bisect_right(firsts, label) - 1, reason)

    def of(self, node: fx.Node) -> Tensor:
        """The labels of a tensor; those of a constant are all 0."""
        labels: Labels = self.values[node]
        return no_unit(node.meta["val"].shape) if labels is None else labels

    def parameter(self, node: Any) -> tuple[str | None, str]:
        """The name of a parameter that is trained and read in one place only; or None, and why not."""
        name = self.traced.parameters.get(node.name) if isinstance(node, fx.Node) else None
        if name is None:
            return None, "is computed, not a parameter itself"
        if name in self.frozen:
            return None, "is frozen"
        readers = [user for other in self._placeholders(self.traced.parameters, name) for user in other.users]
        return (name, "") if len(readers) == 1 else (None, "is used in more than one place")

    def buffer(self, node: Any) -> str | None:
        """The name of a buffer."""
        return self.traced.buffers.get(node.name) if isinstance(node, fx.Node) else None

    def new_units(self, node: fx.Node, weight: Any, bias: Any, weight_axis: int, axis: int) -> Tensor:
        """The output of a layer: units along ``axis``, from the end, if its parameters are its own."""
        shape = node.meta["val"].shape
        name, reason = self.parameter(weight)
        shift, complaint = (None, "") if bias is None else self.parameter(bias)
        if name is None or (bias is not None and shift is None):
            path = module_path(node) or (name or "the model")
            self.refused.setdefault(path, f"its weight {reason}" if name is None else f"its bias {complaint}")
            return no_unit(shape)
        first = 1 + sum(producer.size for producer in self.producers)
        self.producers.append(Producer(node, name, shift, weight_axis, axis, shape[axis], first))
        numbers = torch.arange(first, first + shape[axis])
        return spread(numbers, axis % len(shape), len(shape)).expand(shape)

    def consumed(self, labels: Tensor, axis: int, weight: Any) -> Tensor | None:
        """The labels along the axis that a weight sums over, if there are any and the weight may be cut up by them."""
        line = along(labels, axis)
        if line is None:
            self.lose(labels, f"{self.where} meets different units from place to place")
            return None
        name, reason = self.parameter(weight)
        if name is None:
            self.lose(line, f"the weight of {self.where} {reason}")
            return None
        return line if bool(line.any()) else None

    def _placeholders(self, names: Any, name: str) -> list[fx.Node]:
        return [node for node in self.traced.graph.nodes if node.op == "placeholder" and names.get(node.name) == name]


def label(traced: Traced, frozen: frozenset[str], lookup: Callable[[fx.Node], Rule | None]) -> UnitWalk:
    """Follow every unit through the graph.

    frozen: names of the parameters that are not trained.
    lookup: node -> the rule of its operator, or None.
    """
    units = UnitWalk(traced, frozen, lookup)
    walk(traced, units)
    for node in traced.outputs:
        units.lose(units.values[node], "it is an output of the model")
    for name, node in traced.mutated.items():
        units.lose(units.values[node], f"it is kept in the buffer {name}")
    return units


def no_unit(shape: Any) -> Tensor:
    """Labels of a tensor that is no unit's."""
    return torch.zeros((), dtype=torch.long).expand(tuple(shape))


def spread(line: Tensor, axis: int, dims: int) -> Tensor:
    """A line of labels as a tensor with ``dims`` dimensions, one long."""
    return line.reshape([-1 if d == axis else 1 for d in range(dims)])


def along(labels: Tensor, axis: int) -> Tensor | None:
    """The labels along one axis; None where they depend on another axis too."""
    axis %= labels.ndim
    if not labels.numel():
        return labels.new_zeros(labels.shape[axis])
    line = labels[tuple(slice(None) if d == axis else 0 for d in range(labels.ndim))]
    return line if bool((labels == spread(line, axis, labels.ndim)).all()) else None


def tensors(node: fx.Node) -> Iterator[fx.Node]:
    """The tensors that go into an operator."""
    return (each for each in node.all_input_nodes if _is_tensor(each) or isinstance(each.meta.get("val"), (tuple, list)))


def _nothing(value: Any) -> Any:
    if isinstance(value, Tensor):
        return no_unit(value.shape)
    return tuple(_nothing(each) for each in value) if isinstance(value, (tuple, list)) else None


def _is_tensor(node: fx.Node) -> bool:
    return isinstance(node.meta.get("val"), Tensor)
