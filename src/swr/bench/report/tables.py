"""Tables as data: methods x columns of each experiment as in the paper, every cell with everything that belongs to it.

Runs share a cell only if nothing but the seed tells them apart. Runs of another length, with held-out data or with any other
change of the protocol have tables of their own, and so have hyper-parameters other than those of the protocol.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeVar

from swr.bench.experiments import AT_START, COLD, FIRST, LAST, RunConfig, column_title, experiments, run_description
from swr.bench.report import cells, notes
from swr.bench.report.cells import HELD_OUT, TEST, Cell, Quantity
from swr.bench.report.method_order import column_place, place
from swr.bench.store import Record
from swr.bench.training import Epoch

__all__ = ["Cell", "Row", "Table", "tables"]

MEDIAN = "median test accuracy of the last tenth of the epochs"
CHANGE = "change of the test accuracy when the chunk changes"
EXPLAINED = {MEDIAN: notes.MEDIAN, CHANGE: notes.CHANGE}
"""computed from all epochs of a run, and compared as accuracies are"""

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class Row:
    """A method, or a reference line."""

    line: str
    """the method's name, or ``cold``"""
    title: str
    cells: tuple[Cell, ...]
    """one per column of the table"""


@dataclass(frozen=True)
class Table:
    """The results of one experiment under one protocol."""

    experiment: str
    title: str
    label: str
    """what differs from the paper's protocol; empty if it was followed"""
    measure: str
    """what the numbers are: ``final test accuracy``"""
    kind: Literal["methods", "measure", "grid"]
    """the methods by what they are judged by, by something else that was measured, or one method's hyper-parameters"""
    columns: tuple[str, ...]
    """as the paper writes them"""
    places: tuple[str, ...]
    """the name of each column's dataset and model; several columns have the same where several quantities are shown"""
    rows: tuple[Row, ...]
    notes: tuple[str, ...]
    """sentences under the table"""
    lower: bool = False
    """the smaller the better"""


def tables(records: Iterable[Record], epochs: Mapping[str, Sequence[Epoch]] | None = None) -> list[Table]:
    """All tables of these runs, the paper's experiments first and in its order.

    >>> tables([])
    []

    Args:
        epochs: Of each run; with them, what is not measured at every epoch is found too.
    """
    groups = _by(records, lambda record: (record.config.experiment, run_description.deviations(record.config)))
    known = list(experiments())
    order = sorted(groups, key=lambda key: (known.index(key[0]) if key[0] in known else len(known), bool(key[1])))
    return [table for key in order for table in _tables(groups[key], epochs or {})]


def _tables(records: Sequence[Record], epochs: Mapping[str, Sequence[Epoch]]) -> Iterator[Table]:
    """One experiment under one protocol: its methods, what else was measured, then each method's other hyper-parameters."""
    first = records[0].config
    label, judged = run_description.label(first), cells.judged_by(first)
    preset, others = _split(sorted(records, key=lambda record: column_place(record.config.column)))
    vanilla = [record for record in preset if record.config.line == "vanilla"]
    rows = _by(sorted(preset, key=_place), lambda record: (record.config.line, _row_title(record.config)))
    if preset:
        title = _title(first.experiment, label)
        body = _body(rows, judged, vanilla)
        told, lower = notes.of_methods(preset, label), judged[0].lower
        yield Table(first.experiment, title, label, judged[0].name, "methods", *body, told, lower)
    for quantity in _measures(preset, epochs):
        title = _title(f"{first.experiment}, {quantity.name}", label)
        body = _body(rows, [quantity], vanilla)
        spread = (notes.SPREAD, notes.INTERVAL)
        explained = EXPLAINED.get(quantity.name)
        below = (explained, *spread, notes.BEST, notes.TEST) if explained else spread
        yield Table(first.experiment, title, label, quantity.name, "measure", *body, below)
    for group in _by(sorted(others, key=_place), lambda record: (record.config.line, _keys(record))).values():
        what = "sweep" if first.validation else "other hyper-parameters"
        title = _title(f"{first.experiment}, {group[0].config.title}, {what}", label)
        points = _by(group, lambda record: (record.config.line, f"{record.config.title} {record.config.hyper_text}".strip()))
        quantities = [HELD_OUT, TEST] if first.validation else judged
        body = _body(points, quantities, vanilla)
        told, lower = notes.of_grid(group, body[2]), quantities[0].lower
        yield Table(first.experiment, title, label, quantities[0].name, "grid", *body, told, lower)


def _measures(records: Sequence[Record], epochs: Mapping[str, Sequence[Epoch]]) -> Iterator[Quantity]:
    """The median accuracy of the last epochs; its change with the chunk; and what else was measured, its last value."""
    long = any(len(epochs.get(record.id, ())) >= 20 for record in records)
    scenario = records[0].config.setting if records else None
    if long and scenario and not scenario.metric.online:
        yield Quantity(MEDIAN, lambda record: cells.median(epochs.get(record.id, ())), bounds=cells.SHARE)
    if epochs and scenario and scenario.data == "replaced" and not scenario.metric.online:
        yield Quantity(CHANGE, lambda record: cells.change(epochs.get(record.id, ())), bounds=(-1.0, 1.0))
    last = {record.id: dict(record.last.measures) if record.last else {} for record in records}
    for run, found in last.items():
        for epoch in epochs.get(run, ()):
            found |= epoch.measures

    def value(name: str, record: Record) -> float | None:
        return last[record.id].get(name)

    for name in dict.fromkeys(name for found in last.values() for name in found):
        if scenario and name in (scenario.metric.name, FIRST, LAST):
            continue
        if name != AT_START:
            yield Quantity(f"{name} at the end", partial(value, name), accuracy=False)
        elif epochs and scenario and scenario.data == "same":
            yield Quantity("test accuracy before the last stage", partial(value, name), bounds=cells.SHARE)


def _row_title(config: RunConfig) -> str:
    """The method; with its hyper-parameters where the experiment runs it with several."""
    several = len(run_description.standard(*_where(config))) > 1
    return f"{config.title} {config.hyper_text}" if several else config.title


def _split(records: Sequence[Record]) -> tuple[list[Record], list[Record]]:
    """Runs with the protocol's hyper-parameters, and grids: all the runs of a method on a column that has others too."""
    preset, others = [], []
    for group in _by(records, lambda record: (record.config.line, record.config.column)).values():
        found = {record.config.hyper for record in group}
        usual = {one.hyper for one in run_description.standard(*_where(group[0].config))} or (
            found if len(found) == 1 else set()
        )
        if group[0].config.validation:
            others += group
            continue
        preset += [record for record in group if record.config.hyper in usual]
        others += [] if found <= usual else group
    return preset, others


def _body(
    rows: Mapping[tuple[str, str], Sequence[Record]], quantities: Sequence[Quantity], vanilla: Sequence[Record]
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[Row, ...]]:
    """The headings, places and rows of a table: a column for each quantity on each dataset and model."""
    everything = [record for group in rows.values() for record in group]
    table: list[list[Cell]] = [[] for _ in rows]
    heads, places = [], []
    for column in sorted({record.config.column: None for record in everything}, key=column_place):
        expected = len({record.config.seed for record in everything if record.config.column == column})
        for quantity in quantities:
            base = cells.finished([record for record in vanilla if record.config.column == column], quantity)
            found = [cells.build(group, column, quantity, expected, base) for group in rows.values()]
            if quantity.accuracy and quantity is quantities[0]:
                found = cells.with_best(found, [line != COLD for line, _ in rows], lower=quantity.lower)
            for row, cell in zip(table, found, strict=True):
                row.append(cell)
            heads.append(column_title(column) + (f", {quantity.name}" if len(quantities) > 1 else ""))
            places.append(column)
    return tuple(heads), tuple(places), tuple(Row(*names, tuple(row)) for names, row in zip(rows, table, strict=True))


def _where(config: RunConfig) -> tuple[str, str, str]:
    return config.experiment, config.column, config.line


def _title(name: str, label: str) -> str:
    return f"{name} ({label})" if label else name


def _keys(record: Record) -> tuple[str, ...]:
    """What a grid is over: λ, or λ_f and λ_c."""
    return tuple(name for name, _ in record.config.hyper)


def _place(record: Record) -> tuple[tuple[int, str], tuple[tuple[str, float], ...]]:
    """The one order of the methods; a grid in order of its values."""
    return place(record.config.line), record.config.hyper


def _by(records: Iterable[Record], key: Callable[[Record], Key]) -> dict[Key, list[Record]]:
    groups: dict[Key, list[Record]] = defaultdict(list)
    for record in records:
        groups[key(record)].append(record)
    return dict(groups)
