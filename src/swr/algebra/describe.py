"""A plan as text of at most 100 columns: how much of the network may be scaled, then every parameter, how, and why.

Blocks of a network that are alike are shown once, under one heading. In such a block a name that starts with a dot is inside
the block, and an asterisk stands for every other block.
"""

from __future__ import annotations

import math
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from swr.algebra.blocks import Block
from swr.algebra.forms import Form

if TYPE_CHECKING:
    from swr.algebra.plan import ScalePlan

_WIDTH = 100
_NARROWEST = 24  # of a column that is wrapped
_LISTED = 3  # weights named in one cell; the rest are counted
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[-+]?\d+)?")


class Row(NamedTuple):
    """One line of the table, before it is laid out."""

    name: str
    shape: str
    role: str
    how: str
    note: str


def table(plan: ScalePlan, notes: Mapping[str, str] | None = None) -> str:
    """What may be scaled, one line per parameter and running statistic; blocks that are alike are shown once.

    Args:
        plan: the plan.
        notes: a remark per parameter, shown in an extra column.
    """
    names = _Names(plan)
    blank = Row("", "", "", "", "")
    lines: list[Row] = []
    for section in _sections([_row(plan, names, name, None, notes or {}) for name in names.listed], plan, names, notes or {}):
        if section.title:
            lines += [*([blank] if lines and lines[-1] != blank else []), blank._replace(name=section.title)]
        lines += [row._replace(name=f"  {row.name}") for row in section.rows] if section.title else section.rows
        lines += [blank] if section.title else []
    head = Row("parameter", "shape", "role", "scaled by, and why", "note" if notes is not None else "")
    counts = ", ".join(f"{len(group)} {kind}" for kind, group in _groups(plan) if group)
    top = [f"{shares(plan)}.", f"{counts}.", _kept(plan, names)]
    return "\n".join([*(part for line in top for part in _wrapped(line, _WIDTH)), "", *_aligned([head, *lines])]).rstrip()


def _kept(plan: ScalePlan, names: _Names) -> str:
    """What happens to the function."""
    if plan.inhomogeneous == "free":
        return 'inhomogeneous="free": each weight on its own; f is not kept, and verify() measures how far.'
    constant = _factor(plan.output, plan, names, None)
    if plan.inhomogeneous == "pass":
        return f'f(x) is multiplied by about C = {constant} (inhomogeneous="pass"; verify() measures it).'
    return f"f(x) is multiplied by C = {constant}."


def summary(plan: ScalePlan) -> str:
    """The plan in one line."""
    return f"{shares(plan)}; {', '.join(f'{len(group)} {kind}' for kind, group in _groups(plan) if group)}"


def shares(plan: ScalePlan) -> str:
    """How many of the entries of weights are free, coupled and held."""
    sizes = {name: math.prod(plan.shapes[name]) for name in plan.weights}
    entries = sum(sizes.values())
    parts = {kind: sum(sizes[name] for name in group) for kind, group in _groups(plan)[:3]}
    listed = ", ".join(f"{_percent(part, entries)} {kind}" for kind, part in parts.items())
    return f"{entries:,} weight entries: {listed}"


def _groups(plan: ScalePlan) -> list[tuple[str, tuple[str, ...]]]:
    return [
        ("free", plan.free),
        ("coupled", plan.coupled),
        ("held", plan.held),
        ("followers", plan.followers),
        ("frozen", plan.frozen),
        ("unused", plan.unused),
    ]


def _percent(part: int, whole: int) -> str:
    """Never 0 for some, never 100 for less than all.

    >>> _percent(1, 100_000), _percent(99_999, 100_000), _percent(1, 3), _percent(0, 0)
    ('<0.1 %', '99.9 %', '33.3 %', '0 %')
    """
    if part == 0:
        return "0 %"
    if part == whole:
        return "100 %"
    percent = 100 * part / whole
    return "<0.1 %" if percent < 0.1 else f"{min(percent, 99.9):.1f} %"


# What is said about one parameter.


def _row(plan: ScalePlan, names: _Names, name: str, block: str | None, notes: Mapping[str, str]) -> Row:
    shape = "" if name in plan.statistics else "x".join(map(str, plan.shapes[name])) or "scalar"
    return Row(names.short(name, block), shape, *_parameter(plan, names, name, block), notes.get(name, ""))


def _parameter(plan: ScalePlan, names: _Names, name: str, block: str | None) -> tuple[str, str]:
    """Its role, and by what it is scaled."""
    if name in plan.statistics:
        return "follows", f"{_factor(plan.statistics[name], plan, names, block)}: a running statistic"
    if name in plan.frozen:
        return "frozen", "requires_grad=False: a constant"
    if name in plan.unused:
        return "unused", "the traced computation never reads it"
    if name in plan.followers:
        return "follows", _factor(Form.of(name), plan, names, block)
    kind = plan.kinds[name]
    if kind == "free":
        return "free", "its own scaler"
    restriction = plan.solution.restriction(name)
    why = names.inside(restriction.reason, block)
    if kind == "held":
        return "held", why
    partners = names.several(plan.solution.partners(name), block, first=restriction.form.terms)
    more = f" and {len(partners) - _LISTED} more" if len(partners) > _LISTED else ""
    return "coupled", f"with {', '.join(partners[:_LISTED])}{more}: {why}"


def _factor(form: Form, plan: ScalePlan, names: _Names, block: str | None) -> str:
    """exp(form) as a product of the weights' scalers, e.g. c(fc1.weight)·c(fc2.weight)."""
    row = plan.solution.row(form)
    raw = plan.solution.in_weights(form)
    terms = [(names.short(name, block), k) for name, k in raw if plan.kinds[name] != "held"] if row.any() else []
    return (
        "·".join(f"c({n})" if k == 1 else f"c({n})^{k:g}" for n, k in terms[:_LISTED])
        + (f"·… ({len(terms)} weights)" if len(terms) > _LISTED else "")
        or "1"
    )


class _Names:
    """The names of a plan, and how they are written inside a block.

    Args:
        plan: the plan.
    """

    def __init__(self, plan: ScalePlan) -> None:
        self.listed = _in_order(plan)
        self._alike: dict[str, list[str]] = {}
        for name in plan.weights:
            self._alike.setdefault(_starred(name), []).append(name)

    def short(self, name: str, block: str | None) -> str:
        """The name, without what is common to the block."""
        return name.removeprefix(block) if block is not None and name.startswith(f"{block}.") else name

    def several(self, names: Sequence[str], block: str | None, first: Container[str]) -> list[str]:
        """Weights by name; the same weight of all other blocks is one entry, with an asterisk.

        Those in ``first`` come first, inside a block only its own, and those with an asterisk last: the order is the same in
        every block.
        """
        given, order = set(names), {pattern: i for i, pattern in enumerate(self._alike)}
        found: dict[str, tuple[bool, bool, int]] = {}
        for name in names:
            pattern = _starred(name)
            outside = [n for n in self._alike[pattern] if block is None or not n.startswith(f"{block}.")]
            whole = name in outside and len(self._alike[pattern]) > 1 and given.issuperset(outside)
            leads = name in first and (block is None or name not in outside)
            entry, rank = pattern if whole else self.short(name, block), (not leads, whole, order[pattern])
            found[entry] = min(rank, found.get(entry, rank))
        return sorted(found, key=found.__getitem__)

    def inside(self, reason: str, block: str | None) -> str:
        """A reason whose place is told from inside the block."""
        if block is None:
            return reason
        if reason.endswith(f" at {block}"):
            return f"{reason.removesuffix(f' at {block}')} in the block itself"
        return reason.replace(f" at {block}.", " at .")


def _in_order(plan: ScalePlan) -> list[str]:
    """All parameters, by their blocks where they have some; the running statistics after the parameters of their layer."""
    blocks: dict[str, list[Block]] = {}
    for name in (*plan.weights, *plan.followers):
        if name not in plan.shapes and (block := Block.named(name)) is not None:
            blocks.setdefault(block.parameter, []).append(block)
    listed = [n for name in plan.shapes for n in ([b.name for b in sorted(blocks[name])] if name in blocks else [name])]
    statistics = {layer: list(group) for layer, group in groupby(plan.statistics, key=_layer)}
    found: list[str] = []
    for layer, group in groupby(listed, key=_layer):
        found += [*group, *statistics.pop(layer, [])]
    return [*found, *(name for group in statistics.values() for name in group)]


def _layer(name: str) -> str:
    return name.rpartition(".")[0]


def _starred(name: str) -> str:
    """The name with an asterisk for its first number.

    >>> _starred("h.3.mlp.0.weight"), _starred("head.weight")
    ('h.*.mlp.0.weight', 'head.weight')
    """
    parts = name.split(".")
    at = next((i for i, part in enumerate(parts) if part.isdigit()), None)
    return name if at is None else ".".join([*parts[:at], "*", *parts[at + 1 :]])


# Blocks that are alike.


@dataclass
class _Section:
    """Rows under one title; the rows of a section without a title are on their own."""

    title: str
    rows: list[Row]


def _sections(rows: list[Row], plan: ScalePlan, names: _Names, notes: Mapping[str, str], depth: int = 0) -> Iterator[_Section]:
    """The rows in order, with consecutive blocks that are alike folded into one section."""
    blocks = [(block, list(group)) for block, group in groupby(rows, key=lambda row: _block(row.name, depth))]
    while blocks:
        block, first = blocks.pop(0)
        if block is None:
            yield _Section("", first)
            continue
        shown = [_row(plan, names, row.name, block, notes) for row in first]
        alike = [(block, shown)]
        while blocks and (following := blocks[0][0]) is not None and _layer(following) == _layer(block):
            other = [_row(plan, names, row.name, following, notes) for row in blocks[0][1]]
            if list(map(_pattern, other)) != list(map(_pattern, shown)):
                break
            alike.append((following, other))
            blocks.pop(0)
        if len(alike) * len(shown) > len(shown) + 2:
            others = [rows_there for _, rows_there in alike]
            merged = [row._replace(note=_range([r.note for r in same])) for row, *same in zip(shown, *others, strict=True)]
            yield _Section(f"{_numbers([name for name, _ in alike])}: {len(alike)} blocks alike", merged)
        else:
            for name, _ in alike:
                own = [row for row in rows if _block(row.name, depth) == name]
                yield from _sections(own, plan, names, notes, name.count(".") + 1)


def _block(name: str, depth: int) -> str | None:
    """The path up to the first number after ``depth`` parts; None without one."""
    parts = name.split(".")
    at = next((i for i, part in enumerate(parts) if i >= depth and part.isdigit() and i < len(parts) - 1), None)
    return None if at is None else ".".join(parts[: at + 1])


def _pattern(row: Row) -> Row:
    """The row without the numbers in its note."""
    return row._replace(note=_NUMBER.sub("#", row.note))


def _numbers(blocks: Sequence[str]) -> str:
    """The blocks' common path and their numbers.

    >>> _numbers(["h.0", "h.1", "h.2"]), _numbers(["0", "2", "5"])
    ('h.0…2', '0,2,5')
    """
    path, last = _layer(blocks[0]), [int(block.rpartition(".")[2]) for block in blocks]
    consecutive = last == list(range(last[0], last[0] + len(last)))
    numbers = f"{last[0]}…{last[-1]}" if consecutive else ",".join(map(str, last))
    return f"{path}.{numbers}" if path else numbers


def _range(notes: Sequence[str]) -> str:
    """Notes that differ in their numbers only, as one.

    >>> _range(["λ 0.1, anchor 2.5", "λ 0.1, anchor 2.25"])
    'λ 0.1, anchor 2.25…2.5'
    """
    columns = iter(list(zip(*(_NUMBER.findall(note) for note in notes), strict=True)))

    def merged(_: re.Match[str]) -> str:
        found = sorted(set(next(columns)), key=float)
        return found[0] if len(found) == 1 else f"{found[0]}…{found[-1]}"

    return _NUMBER.sub(merged, notes[0])


# Layout.


def _aligned(rows: Sequence[Row]) -> Iterator[str]:
    """The rows in columns, at most 100 wide in all: long cells are wrapped, the widest first."""
    titles = {row for row in rows if row.name and not any(row[1:])}
    widths = [max(map(len, column)) for column in zip(*(row for row in rows if row not in titles), strict=True)]
    spare = _WIDTH - 2 * (len(widths) - 1)
    while sum(widths) > spare and max(widths) > _NARROWEST:
        widest = widths.index(max(widths))
        others = sorted(width for i, width in enumerate(widths) if i != widest)
        widths[widest] = max(min(others[-1] - 1, widths[widest] - 1), widths[widest] - (sum(widths) - spare), _NARROWEST)
    for row in rows:
        if row in titles:
            yield row.name
            continue
        cells = [_wrapped(cell, width) for cell, width in zip(row, widths, strict=True)]
        for i in range(max(map(len, cells))):
            line = (cell[i] if i < len(cell) else "" for cell in cells)
            yield "  ".join(part.ljust(width) for part, width in zip(line, widths, strict=True)).rstrip()


def _wrapped(text: str, width: int) -> list[str]:
    """The text in lines, broken after a space, a dot of a product or a comma; a longer word is cut.

    >>> _wrapped("c(a.weight)·c(b.weight): why", 14)
    ['c(a.weight)·', 'c(b.weight):', 'why']
    """
    lines = [""]
    indent = " " * (len(text) - len(text.lstrip()))
    for word in _words(text, width):
        if len((lines[-1] + word).rstrip()) > width and lines[-1].strip():
            lines[-1] = lines[-1].rstrip()
            lines.append(indent if len(indent + word.rstrip()) <= width else "")
        lines[-1] += word
    return [*lines[:-1], lines[-1].rstrip()]


def _words(text: str, width: int) -> Iterable[str]:
    for word in re.findall(r"\s*(?:\[[^]]*\]|[^ ·])+[ ·]*", text):  # brackets stay in one piece
        while len(word.rstrip()) > width:
            yield word[:width]
            word = word[width:]
        yield word
