"""The walk: what placeholders stand for, arguments by name, constants, items of tuples."""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from swr.algebra.graph import trace
from swr.algebra.walk import Visitor, bind, packet, place, source_of, walk


class Mixed(nn.Module):
    """All kinds of placeholders; a constant expression, random numbers and two outputs of one operator."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.register_buffer("offset", torch.ones(4))

    def forward(self, x):
        table = torch.arange(4.0).exp()
        values, _ = torch.topk(self.fc(x) + table, 2)
        return values + self.offset[:2] + torch.rand(2)


@dataclass
class Recorder(Visitor):
    """Remembers what it was asked; a value is the set of the inputs that a tensor depends on."""

    values: dict[Any, Any] = field(default_factory=dict)
    sources: list[tuple[str, str]] = field(default_factory=list)
    folded: list[str] = field(default_factory=list)
    called: dict[str, dict[str, Any]] = field(default_factory=dict)

    def placeholder(self, node, source):
        self.sources.append((source.kind, source.name))
        return frozenset([source.name]) if source.kind in ("parameter", "input") else frozenset()

    def is_constant(self, value):
        return not value

    def fold(self, node, args, kwargs):
        self.folded.append(packet(node.target))
        return frozenset()

    def call(self, node, arguments):
        self.called[packet(node.target)] = arguments
        sets = [value for value in arguments.values() if isinstance(value, frozenset)]
        union = frozenset().union(*sets)
        several = isinstance(node.meta["val"], (tuple, list))
        return tuple(union | {str(i)} for i in range(len(node.meta["val"]))) if several else union


def test_the_walk_classifies_binds_folds_and_picks():
    traced = trace(Mixed(), (torch.randn(3, 4),))
    recorder = Recorder()
    values = walk(traced, recorder)
    assert ("parameter", "fc.weight") in recorder.sources
    assert ("buffer", "offset") in recorder.sources
    assert ("input", "x") in recorder.sources
    assert "exp" in recorder.folded
    assert "rand" not in recorder.folded
    assert "rand" in recorder.called
    assert recorder.called["linear"] == {
        "input": frozenset(["x"]),
        "weight": frozenset(["fc.weight"]),
        "bias": frozenset(["fc.bias"]),
    }
    assert recorder.called["topk"]["largest"] is True
    assert list(recorder.called["topk"]) == ["self", "k", "dim", "largest", "sorted"]
    (out,) = traced.outputs
    assert values[out] == {"x", "fc.weight", "fc.bias", "0"}


def test_arguments_are_bound_by_the_schema_whether_they_came_by_position_or_by_name():
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    by_position = graph.call_function(torch.ops.aten.leaky_relu.default, (x, 0.2))
    by_name = graph.call_function(torch.ops.aten.leaky_relu.default, (x,), {"negative_slope": 0.2})
    neither = graph.call_function(torch.ops.aten.leaky_relu.default, (x,))
    assert bind(by_position) == bind(by_name) == {"self": x, "negative_slope": 0.2}
    assert bind(neither) == {"self": x, "negative_slope": 0.01}
    without_schema = graph.call_function(max, (x, 3))
    assert bind(without_schema) == {"0": x, "1": 3}


def test_names_of_operators_and_places():
    traced = trace(Mixed(), (torch.randn(3, 4),))
    (linear,) = (node for node in traced.graph.nodes if node.target is torch.ops.aten.linear.default)
    assert place(linear) == "linear at fc"
    assert packet(torch.ops.aten.add.Tensor) == packet(torch.ops.aten.add) == "add"
    weight = next(node for node in traced.graph.nodes if traced.parameters.get(node.name) == "fc.weight")
    assert source_of(weight, traced).kind == "parameter"
