"""Where a layer's units can be seen at work: a module to hook, and the few operators from its output to the activation.

The activation of a layer is what its output has become after the normalisation of each channel and the first run of pointwise
operators. Modules are hooked as late as possible on that way, so that a normalisation is never computed twice; what
is functional (``F.relu``) is computed again.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, fx, nn

from swr.algebra.graph import module_path
from swr.algebra.walk import packet, place
from swr.units.labelling import is_activation, is_normalisation, is_pointwise, is_pooling
from swr.units.labels import Producer, UnitWalk, along

_CARRIERS = ("clone", "alias", "detach", "contiguous", "permute", "transpose", "t", "mT", "movedim", "squeeze", "unsqueeze")
_DROPOUTS = ("dropout", "native_dropout", "feature_dropout", "alpha_dropout")


@dataclass(frozen=True)
class Site:
    """Where to see the units of a layer.

    module: the path of the module whose output to take.
    axis: of the activation, along which the units lie, counted from the end.
    operators: from the module's output to the activation, by name.
    activation: computes them.
    nonnegative: the last one is a ReLU.
    """

    module: str
    axis: int
    operators: tuple[str, ...]
    activation: Callable[[Tensor], Tensor]
    nonnegative: bool


@dataclass(frozen=True)
class LeftAlone:
    """Why a layer's units cannot be recycled."""

    reason: str


def find_site(walk: UnitWalk, producer: Producer, model: nn.Module) -> Site | LeftAlone:
    """The site of a layer's units, or why there is none."""
    start = _leaves_module(producer.node)
    if start is None or _axis(walk, producer, start) is None or not _is_output_of(start, producer.name, model):
        return LeftAlone("its output is not that of a module, so that it cannot be observed")
    stations, seen = _way(walk, producer, start)
    hooked = [station for station in stations if station is start or _is_module_output(station, walk, model)][-1]
    replay = _replay(walk, seen, hooked, stations[-1])
    axis = _axis(walk, producer, stations[-1])
    if replay is None or axis is None:
        return LeftAlone(f"its activation, {place(stations[-1])}, cannot be observed")
    names = tuple(packet(node.target) for node in replay.nodes if node.op == "call_function")
    function = fx.GraphModule(nn.Module(), replay).forward if names else _identity
    return Site(_path(hooked), axis, names, function, nonnegative=packet(stations[-1].target) == "relu")


def _way(walk: UnitWalk, producer: Producer, start: fx.Node) -> tuple[list[fx.Node], list[fx.Node]]:
    """The nodes that the units must all pass, up to the activation; and all nodes on the way."""
    inside = [start]
    passed = [start]
    best = 0
    pointwise = False
    nodes = list(walk.traced.graph.nodes)
    for node in nodes[nodes.index(start) + 1 :]:
        if not set(node.all_input_nodes) & set(inside) or _is_statistic(walk, node):
            continue
        if _axis(walk, producer, node) is None:
            break
        inside.append(node)
        if isinstance(walk.values[node], tuple) or any(
            user not in inside for each in inside[:-1] for user in _users(walk, each)
        ):
            continue
        if is_activation(node):
            pointwise = True
        elif pointwise:
            break
        passed.append(node)
        if pointwise or _is_norm_output(node):
            best = len(passed) - 1
    return passed[: best + 1], inside


def _replay(walk: UnitWalk, inside: list[fx.Node], begin: fx.Node, end: fx.Node) -> fx.Graph | None:
    """The operators from one node to another as a graph of one input, dropout left out; None if they need anything else."""
    graph = fx.Graph()
    values = {begin: graph.placeholder("output")}
    for node in inside[inside.index(begin) + 1 :]:
        inputs = node.all_input_nodes
        if not inputs or not all(each in values for each in inputs):
            continue
        if packet(node.target) in _DROPOUTS or (node.target is operator.getitem and packet(inputs[0].target) in _DROPOUTS):
            values[node] = values[inputs[0]]
        elif is_pointwise(node) or is_pooling(node) or packet(node.target) in _CARRIERS:
            values[node] = graph.node_copy(node, lambda each: values[each])
    if end not in values:
        return None
    graph.output(values[end])
    graph.eliminate_dead_code()
    return graph


def _axis(walk: UnitWalk, producer: Producer, node: fx.Node) -> int | None:
    """The one axis along which a tensor holds the producer's units in their order, from the end; None if there is none."""
    labels = walk.values[node]
    labels = labels[0] if isinstance(labels, tuple) else labels
    if not isinstance(labels, Tensor):
        return None
    units = torch.arange(producer.first, producer.first + producer.size)
    if producer.size == 1:  # any axis of length one would do: only its own is trusted
        candidates = [labels.ndim + producer.home] if labels.ndim >= -producer.home else []
    else:
        candidates = [axis for axis in range(labels.ndim) if labels.shape[axis] == producer.size]
    for axis in candidates:
        line = along(labels, axis)
        if line is not None and torch.equal(line, units):
            return int(axis - labels.ndim)
    return None


def _leaves_module(node: fx.Node) -> fx.Node | None:
    """The node that leaves the layer's module: itself, or a view of it."""
    while any(_key(user) == _key(node) for user in node.users):
        users = list(node.users)
        if len(users) != 1 or packet(users[0].target) not in ("view", "_unsafe_view", "reshape", *_CARRIERS):
            return None
        node = users[0]
    return node


def _is_output_of(node: fx.Node, name: str, model: nn.Module) -> bool:
    """Whether a node leaves the module of this name, which may be registered under other names too."""
    modules = dict(model.named_modules(remove_duplicate=False))
    return name in modules and modules.get(_path(node)) is modules[name]


def _is_module_output(node: fx.Node, walk: UnitWalk, model: nn.Module) -> bool:
    """Whether the node is the output of one of torch's own modules without children that runs once a pass."""
    path = _path(node)
    modules = dict(model.named_modules(remove_duplicate=False))
    module = modules.get(path)
    if module is None or not path or any(module.children()) or not type(module).__module__.startswith("torch.nn."):
        return False
    names = {name for name, other in modules.items() if other is module}
    calls = {_key(other) for other in walk.traced.graph.nodes if other.op == "call_function" and _path(other) in names}
    return len(calls) == 1 and all(_key(user) != _key(node) for user in _users(walk, node))


def _is_norm_output(node: fx.Node) -> bool:
    source = node.all_input_nodes[0] if node.target is operator.getitem else node
    return is_normalisation(source)


def _is_statistic(walk: UnitWalk, node: fx.Node) -> bool:
    """The batch's mean or variance on the way to a running statistic."""
    return node.target is operator.getitem and node in walk.traced.mutated.values()


def _users(walk: UnitWalk, node: fx.Node) -> list[fx.Node]:
    """Who reads a node, but for the running statistics."""
    return [
        user for user in node.users if (user.op != "output" or node in walk.traced.outputs) and not _is_statistic(walk, user)
    ]


def _key(node: fx.Node) -> str:
    """The innermost module's call: a module that is called again has another key."""
    return str(next(reversed(node.meta.get("nn_module_stack") or {"": ""})))


def _path(node: fx.Node) -> str:
    return module_path(node).partition("@")[0]


def _identity(output: Tensor) -> Tensor:
    return output
