"""Parameters that a network uses in blocks: the matrix of queries, keys and values, cut into three after one product.

The intervals of a parameter that are used as a whole (:mod:`swr.algebra.spans`) belong together where they overlap. If
several are left and cover the parameter, each of them is a block: the graph is rewritten as if the blocks were parameters of
their own, so that nothing after this pass knows of them. In any other case the parameter stays whole.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

import torch
from torch import fx

from swr.algebra.blocks import Block
from swr.algebra.forms import Form
from swr.algebra.graph import Traced
from swr.algebra.solve import substitute
from swr.algebra.spans import Region, Span, Step, axis_of
from swr.algebra.walk import bind

if TYPE_CHECKING:
    from swr.algebra.plan import ScalePlan

_MOST = 64  # blocks of one parameter; one that is used in more, such as a table read row by row, stays whole


def split_fused(traced: Traced, trained: Collection[str]) -> Traced:
    """The same graph with a parameter for each block; the graph is changed in place.

    Args:
        traced: the graph.
        trained: the parameters that may be split.
    """
    region = Region(traced, trained)
    blocks = _blocks(region)
    return _rewritten(traced, region, blocks) if blocks else traced


def join_tied(plan: ScalePlan, exact: ScalePlan) -> ScalePlan:
    """The plan with neighbouring blocks of a parameter joined that always have one scale, such as the halves of a rotation.

    Args:
        plan: of a graph that was split.
        exact: the plan of the same graph that keeps the function, which says what is tied.
    """
    names = {name: block for name in (*exact.weights, *exact.followers) if (block := Block.named(name)) is not None}
    rows = dict(zip(names, exact.matrix(tuple(names)), strict=True))

    def tied(one: Block, other: Block) -> bool:
        alike = (one.name in exact.weights) == (other.name in exact.weights)
        return alike and bool(rows[one.name].any()) and torch.allclose(rows[one.name], rows[other.name], rtol=0, atol=1e-9)

    joined: dict[str, str] = {}
    for parameter, group in groupby(sorted(names.values()), key=lambda block: block.parameter):
        runs: list[list[Block]] = []
        for block in group:
            if runs and tied(runs[-1][-1], block):
                runs[-1].append(block)
            else:
                runs.append([block])
        for run in runs:
            name = parameter if len(runs) == 1 else replace(run[0], stop=run[-1].stop).name
            joined |= dict.fromkeys((block.name for block in run), name)
    if all(name == new for name, new in joined.items()):
        return plan
    known = {name: Form.of(new) for name, new in joined.items()}
    equations = [replace(e, form=substitute(e.form, known)) for e in plan.equations]
    return replace(
        plan,
        weights=tuple(dict.fromkeys(joined.get(name, name) for name in plan.weights)),
        followers=tuple(dict.fromkeys(joined.get(name, name) for name in plan.followers)),
        equations=tuple(dict.fromkeys(e for e in equations if not e.form.is_zero)),
        statistics={name: substitute(form, known) for name, form in plan.statistics.items()},
        output=substitute(plan.output, known),
    )


# From the intervals that are used to blocks.


def _blocks(region: Region) -> dict[str, list[Block]]:
    """The blocks of every parameter that has some."""
    shapes = {
        region.traced.parameters[n.name]: n.meta["val"].shape
        for n in region.traced.graph.nodes
        if n.op == "placeholder" and n.name in region.traced.parameters
    }
    found: dict[str, list[Block]] = {}
    for (name, axis), used in sorted(region.used.items()):
        parts = _apart(used)
        covered = parts[0][0] == 0 and parts[-1][1] == shapes[name][axis]
        adjoining = all(one[1] == following[0] for one, following in pairwise(parts))
        if name not in found and 1 < len(parts) <= _MOST and covered and adjoining:
            found[name] = [Block(name, axis, *part) for part in parts]
    while torn := {s.parameter for span in region.joined if not _agree(span, found) for s in span.sources} & set(found):
        found = {name: blocks for name, blocks in found.items() if name not in torn}
    return found


def _apart(intervals: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Intervals that overlap, joined; in order.

    >>> _apart([(4, 6), (0, 2), (1, 4)])
    [(0, 4), (4, 6)]
    """
    parts: list[tuple[int, int]] = []
    for start, stop in sorted(intervals):
        if parts and start < parts[-1][1]:
            parts[-1] = parts[-1][0], max(stop, parts[-1][1])
        else:
            parts.append((start, stop))
    return parts


def _agree(span: Span, blocks: dict[str, list[Block]]) -> bool:
    """Whether the blocks of all parameters of a span are cut at the same places of it."""
    cuts = [
        {b.start - s.start for b in blocks.get(s.parameter, []) if b.axis == s.axis and 0 < b.start - s.start < span.length}
        for s in span.sources
    ]
    return all(each == cuts[0] for each in cuts)


# The graph with a parameter for each block.


def _rewritten(traced: Traced, region: Region, blocks: dict[str, list[Block]]) -> Traced:
    parameters = dict(traced.parameters)
    made: dict[tuple[fx.Node, int], fx.Node] = {}

    def step_of(node: fx.Node) -> Step | None:
        """The step in which a tensor comes from blocks, if it does."""
        for step in region.steps.get(node, []):
            if any(block.axis == step.span.sources[0].axis for block in blocks.get(step.span.sources[0].parameter, [])):
                return step
        return None

    def piece(node: fx.Node, at: int) -> fx.Node:
        """What stands for the tensor in the block that has entry ``at`` of the span."""
        step = step_of(node)
        assert step is not None
        source = step.span.sources[0]
        block = next(b for b in blocks[source.parameter] if b.start <= source.start + at < b.stop)
        first = max(block.start - source.start, 0)
        if (node, first) not in made:
            made[node, first] = _made(node, step, block, first)
        return made[node, first]

    def _made(node: fx.Node, step: Step, block: Block, first: int) -> fx.Node:
        span, last = step.span, min(block.stop - step.span.sources[0].start, step.span.length)
        start, size = first // span.step, (last - first) // span.step
        if step.moves:
            (subject, before) = step.inputs["self"]
            return piece(subject, first + span.sources[0].start - before.sources[0].start)
        with traced.graph.inserting_before(node):
            if node.op == "placeholder":
                new = traced.graph.placeholder(node.name)
                parameters[new.name] = block.name
            else:
                parts = {name: piece(n, first) for name, (n, _) in step.inputs.items()}
                for name, constant in step.frozen.items():
                    parts[name] = traced.graph.call_function(torch.ops.aten.slice.Tensor, (constant, 0, start, start + size))
                    parts[name].meta = {**constant.meta, "val": constant.meta["val"].narrow(0, start, size)}
                arguments = {**bind(node), **parts}
                keywords = {a.name for a in node.target._schema.arguments if a.kwarg_only}  # type: ignore[union-attr]
                new = traced.graph.call_function(
                    node.target,  # type: ignore[arg-type]
                    tuple(value for name, value in arguments.items() if name not in keywords),
                    {name: value for name, value in arguments.items() if name in keywords},
                )
        new.meta = {**node.meta, "val": node.meta["val"].narrow(axis_of(span), start, size)}
        return new

    followed = {node: step.span for node in region.steps if (step := step_of(node)) is not None}
    for node, span in followed.items():
        if (node, span) in region.whole:
            part = piece(node, 0)
            node.target, node.args, node.kwargs = torch.ops.aten.alias.default, (part,), {}
    for node in reversed(traced.graph.nodes):
        replaced = node in region.items or (node in followed and (node, followed[node]) not in region.whole)
        if node.op == "call_function" and not node.users and (replaced or node.meta.get("val") is None):
            traced.graph.erase_node(node)
    return replace(traced, parameters=parameters)
