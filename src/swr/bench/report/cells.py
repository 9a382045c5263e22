"""A cell of a table: one number over several seeds, and everything that belongs to it."""

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

from swr.bench.experiments import FIRST, LAST, Published, RunConfig, published, run_description
from swr.bench.report import notes
from swr.bench.report.statistics import Comparison, paired, summary
from swr.bench.store import Record
from swr.bench.training import Epoch


@dataclass(frozen=True)
class Cell:
    """A method on a column, over its seeds."""

    values: dict[int, float]
    """by seed, of the runs that are done"""
    expected: int
    """seeds that any row has in this column"""
    failed: int
    running: int
    note: str
    """what is missing: ``3 of 5 seeds``, ``running, epoch 120/200``, ``failed``; empty if everything is done"""
    mean: float | None
    std: float | None
    """with n - 1, from two seeds on"""
    interval: tuple[float, float] | None
    """where the true mean lies with 95 % confidence, from two seeds on"""
    published: Published | None
    """the paper's, for runs that follow its protocol"""
    difference: float | None
    """our mean minus the published one"""
    against: Comparison | None
    """with vanilla, seed by seed"""
    best: bool
    """ahead of every other cell of its column that is complete, by more than chance"""
    hyper: str
    """hyper-parameters with the paper's symbols"""
    command: str | None
    """that computes this cell alone; None if there is no such command"""
    runs: tuple[str, ...]
    """ids of all its runs"""
    seconds: float | None
    """spent in the epochs of the runs that are done; None if unknown"""

    @property
    def distance(self) -> float | None:
        """The difference in standard deviations of the paper's seeds; beyond 2 it needs an explanation."""
        return self.difference / self.published.std if self.difference is not None and self.published else None

    @property
    def gain(self) -> float | None:
        """Mean of the differences to vanilla."""
        return self.against.difference if self.against else None

    @property
    def p(self) -> float | None:
        """Of the paired t-test against vanilla."""
        return self.against.p if self.against else None

    @property
    def pairs(self) -> int:
        """Seeds that this cell and vanilla both have."""
        return self.against.pairs if self.against else 0

    @property
    def done(self) -> int:
        """Seeds that are finished."""
        return len(self.values)

    def __str__(self) -> str:
        if self.mean is None:
            return "—"
        return f"{self.mean:.4f}" + ("" if self.std is None else f" ± {self.std:.4f}")


@dataclass(frozen=True)
class Quantity:
    """The number of a finished run that a table shows."""

    name: str
    of: Callable[[Record], float | None]
    accuracy: bool = True
    """the larger the better, and compared with vanilla"""
    lower: bool = False
    """compared with vanilla, but the smaller the better"""
    bounds: tuple[float, float] | None = None
    """what its values, and so the interval of their mean, cannot leave"""


SHARE = (0.0, 1.0)
"""the bounds of an accuracy"""
TEST = Quantity("final test accuracy", lambda record: record.last.test_accuracy if record.last else None, bounds=SHARE)
HELD_OUT = Quantity(
    "accuracy on held-out data", lambda record: record.last.validation_accuracy if record.last else None, bounds=SHARE
)


def judged_by(config: RunConfig) -> list[Quantity]:
    """What a run is judged by; on a stream also at its two ends, to show whether it falls."""
    metric = config.setting.metric
    if not metric.online:
        return [TEST]
    bounds = None if metric.field == "train_loss" else SHARE
    names = (metric.name, FIRST, LAST)
    return [Quantity(name, partial(_measured, name), lower=metric.lower, bounds=bounds) for name in names]


def build(row: Sequence[Record], column: str, quantity: Quantity, expected: int, vanilla: Mapping[int, float]) -> Cell:
    """The cell of a row in a column.

    Args:
        row: The runs of the row.
        column: The name of the column.
        quantity: What the table shows.
        expected: Number of seeds that any row has in this column.
        vanilla: The values of vanilla there, by seed.
    """
    records = [record for record in row if record.config.column == column]
    config = records[0].config if records else _unrun(row[0].config, column)
    values = finished(records, quantity)
    found = summary(list(values.values()), quantity.bounds)
    against = paired(values, vanilla) if row[0].config.line != "vanilla" and quantity.accuracy else None
    followed = config is not None and quantity is TEST and run_description.reference(config) == config
    paper = published(config.experiment, column, config.line) if config and followed else None
    return Cell(
        values=values,
        expected=expected,
        failed=sum(record.status == "failed" for record in records),
        running=sum(record.status == "running" for record in records),
        note=notes.missing(records, len(values), expected),
        mean=found.mean if found else None,
        std=found.std if found else None,
        interval=found.interval if found else None,
        published=paper,
        difference=found.mean - paper.mean if found and paper else None,
        against=against,
        best=False,
        hyper=config.hyper_text if config else "",
        command=run_description.command(config, [r.config.seed for r in records] or [expected - 1]) if config else None,
        runs=tuple(record.id for record in records),
        seconds=_seconds([record for record in records if record.status == "done"]),
    )


def median(epochs: Sequence[Epoch]) -> float | None:
    """The median test accuracy over the last tenth of the epochs, at least one.

    >>> median([])
    """
    last = [epoch.test_accuracy for epoch in epochs[-math.ceil(len(epochs) / 10) :]] if epochs else []
    return statistics.median(last) if last else None


def change(epochs: Sequence[Epoch]) -> float | None:
    """The change of the test accuracy from the last epoch of a stage to the first of the next, mean over the changes.

    >>> change([])
    """
    found = [new.test_accuracy - old.test_accuracy for old, new in pairwise(epochs) if new.stage != old.stage]
    return statistics.mean(found) if found else None


def with_best(cells: list[Cell], competing: list[bool], *, lower: bool = False) -> list[Cell]:
    """Mark the best of a column, if there is one: from two seeds on, and the interval of its difference to every other.

    Only complete cells are compared. That each interval must exclude zero needs no correction for their number.

    Args:
        cells: The cells of the column.
        competing: Which of them can be the best; reference lines cannot.
        lower: The smallest is the best.
    """
    rivals = [
        cell for cell, runs in zip(cells, competing, strict=True) if runs and not cell.note and _finite(cell.mean) is not None
    ]
    if len(rivals) < 2:
        return cells
    first = (min if lower else max)(rivals, key=lambda cell: _finite(cell.mean) or 0.0)
    compared = [paired(first.values, cell.values) for cell in rivals if cell is not first]
    ahead = all(found is not None and found.sign == (-1 if lower else 1) for found in compared)
    return [replace(cell, best=cell is first and ahead) for cell in cells]


def finished(records: Iterable[Record], quantity: Quantity) -> dict[int, float]:
    """By seed, of the runs that are done."""
    found = {record.config.seed: quantity.of(record) for record in records if record.status == "done"}
    return {seed: value for seed, value in sorted(found.items()) if value is not None}


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _seconds(records: Iterable[Record]) -> float | None:
    known = [record.seconds for record in records]
    return sum(filter(None, known)) if known and None not in known else None


def _measured(name: str, record: Record) -> float | None:
    return record.last.measures.get(name) if record.last else None


def _unrun(config: RunConfig, column: str) -> RunConfig | None:
    """The run that a cell without runs would hold, if the others of its row follow the protocol."""
    if run_description.reference(config) != config:
        return None
    known = run_description.standard(config.experiment, column, config.line)
    return known[0] if len(known) == 1 else next((one for one in known if one.hyper == config.hyper), None)
