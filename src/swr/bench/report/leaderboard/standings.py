"""What the runs of a store say about every row of the leaderboard.

A place (a stream, or another setting) is on the board once both of its references are finished there. It counts in the mean and
in the rank once every row of the board has ended there, and only if plain training has lost something there: otherwise
there is nothing to recover, and the share is not defined.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from swr.bench.experiments import LAST, RunConfig
from swr.bench.experiments.board import VANILLA, Row, fresh, references
from swr.bench.experiments.run_description import command
from swr.bench.experiments.study import Point, Setting
from swr.bench.report.leaderboard.shares import Floats, interval, is_lost, ranks, resampled, share
from swr.bench.report.selection import best, failed
from swr.bench.report.statistics import Comparison, paired
from swr.bench.store import Record
from swr.bench.training.online import final

Records = Mapping[str, Record]
"""runs that have ended, by identity"""
Interval = tuple[float, float]


@dataclass(frozen=True)
class Column:
    """A place on the board."""

    place: Setting
    values: Mapping[str, Mapping[int, float]]
    """of the two references, by line and seed"""
    tuning: Mapping[str, Mapping[int, float]]
    """the same on the tuning seeds; empty until they are done"""
    lost: bool
    """whether plain training has clearly lost something here"""
    counts: bool = False
    """whether it is part of means and ranks"""

    @property
    def vanilla(self) -> Mapping[int, float]:
        """Plain training."""
        return self.values[VANILLA]

    @property
    def fresh(self) -> Mapping[int, float]:
        """The network that has lost nothing."""
        return self.values[fresh(self.place)]


@dataclass(frozen=True)
class Cell:
    """A row on a place, at its chosen configuration."""

    point: Point
    values: Mapping[int, float]
    """by reported seed"""
    against: Comparison
    """with vanilla"""
    command: str
    """that repeats it"""
    draws: Floats | None
    """the share in every draw of seeds; None where nothing was lost"""
    share: float | None
    neighbour: float | None
    """the share of the worst configuration next to the chosen one, on the tuning seeds; minus infinity if it failed"""

    @property
    def interval(self) -> Interval | None:
        """Of the share."""
        return None if self.draws is None else interval(self.draws)


@dataclass(frozen=True)
class Failure:
    """Runs of a row on a place that ended with an error."""

    points: tuple[Point, ...]
    """the configurations; one that fails on the tuning seeds is not chosen"""
    final: bool
    """whether they leave the row without a cell"""


@dataclass(frozen=True)
class Standing:
    """A row with all that is known of it."""

    row: Row
    cells: Mapping[str, Cell]
    """by place"""
    failures: Mapping[str, Failure]
    """by place"""
    mean: float | None = None
    """of the shares over the places that count"""
    interval: Interval | None = None
    rank: int | None = None
    ranks: Interval | None = None
    """where its rank lies in 95 % of the draws"""

    @property
    def neighbour(self) -> float | None:
        """The worst neighbour over its places."""
        return min((cell.neighbour for cell in self.cells.values() if cell.neighbour is not None), default=None)


@dataclass(frozen=True)
class Board:
    """The whole board."""

    columns: Sequence[Column] = ()
    standings: Sequence[Standing] = field(default=())
    """ranked ones first, the best on top; then the others in the order in which they are run"""
    missing: int = 0
    """rows of which nothing is finished"""


def board(records: Records, rows: Sequence[Row], places: Sequence[Setting]) -> Board:
    """Put the board together.

    Args:
        records: Runs that have ended, by identity.
        rows: The methods that belong to it.
        places: Where they are compared.
    """
    columns = [column for place in places if (column := _column(place, records)) is not None]
    found = [_standing(row, columns, records) for row in rows]
    shown = [one for one in found if one.cells or one.failures]
    columns = [_counted(column, shown) for column in columns]
    counting = [column.place.name for column in columns if column.counts]
    ranked = _ranked([one for one in shown if all(name in one.cells for name in counting)], counting)
    others = [one for one in shown if one.row not in [each.row for each in ranked]]
    return Board(columns, [*ranked, *others], len(found) - len(shown))


def value(config: RunConfig, records: Records) -> float | None:
    """What the score is made of: a stream's last tenth of tasks, else the test accuracy at the end; None if it is not done."""
    record = records.get(config.identity)
    if record is None or record.status != "done" or record.last is None:
        return None
    return record.last.measures[LAST] if config.setting.metric.online else final(config, record.last)


def _values(configs: Sequence[RunConfig], records: Records) -> dict[int, float] | None:
    """By seed; None until all are done."""
    found = {config.seed: one for config in configs if (one := value(config, records)) is not None}
    return found if len(found) == len(configs) else None


def _column(place: Setting, records: Records) -> Column | None:
    known, tuning = ({line: _values(c, records) for line, c in references(place, tune=t).items()} for t in (False, True))
    values = {line: one for line, one in known.items() if one is not None}
    if len(values) < len(known):
        return None
    complete = {line: one for line, one in tuning.items() if one is not None}
    lost = is_lost(values[VANILLA], values[fresh(place)])
    return Column(place, values, complete if len(complete) == len(tuning) else {}, lost)


def _standing(row: Row, columns: Sequence[Column], records: Records) -> Standing:
    """A row without mean and rank."""
    here = [column for column in columns if row.runs_in(column.place)]
    cells = {column.place.name: cell for column in here if (cell := _cell(row, column, records))}
    failures = {column.place.name: one for column in here if (one := _failure(row, column.place, records))}
    return Standing(row, cells, failures)


def _failure(row: Row, place: Setting, records: Records) -> Failure | None:
    grid = row.grid(place)
    out = failed(grid, records)
    point = best(grid, records) if grid else row.points[0]
    if point is None:
        return Failure(out, final=len(out) == len(row.points)) if out else None
    final = failed(row.reported(place, point), records)
    return Failure((*out, *final), final=bool(final)) if out or final else None


def _counted(column: Column, shown: Sequence[Standing]) -> Column:
    """The same, with the answer to whether it counts."""
    name = column.place.name
    here = [one for one in shown if one.row.runs_in(column.place) and not (name in one.failures and one.failures[name].final)]
    done = bool(here) and all(name in one.cells for one in here)
    return Column(column.place, column.values, column.tuning, column.lost, counts=column.lost and done)


def _cell(row: Row, column: Column, records: Records) -> Cell | None:
    """A row on a place; None until its choice is made and all reported seeds are done."""
    place, grid = column.place, row.grid(column.place)
    point = best(grid, records) if grid else row.points[0]
    configs = [] if point is None else row.reported(place, point)
    values = _values(configs, records)
    if point is None or not values:
        return None
    against = paired(values, column.vanilla)
    assert against is not None
    repeat = command(configs[0], place.reported)
    assert repeat is not None
    common = (point, values, against, repeat)
    if not column.lost:
        return Cell(*common, None, None, None)
    draws = resampled(values, column.vanilla, column.fresh, place.name)
    return Cell(*common, draws, share(values, column.vanilla, column.fresh), _neighbour(row, point, column, records))


def _neighbour(row: Row, point: Point, column: Column, records: Records) -> float | None:
    """The lowest share, on the tuning seeds, of the configurations next to the chosen one."""
    if len(row.points) < 2 or not column.tuning:
        return None
    chosen = row.points.index(point)
    near = [row.points[index] for index in (chosen - 1, chosen + 1) if 0 <= index < len(row.points)]
    vanilla, new = column.tuning[VANILLA], column.tuning[fresh(column.place)]
    if sum(new.values()) <= sum(vanilla.values()):
        return None  # nothing was lost with these seeds
    found = []
    for one in near:
        runs = [config for config in row.grid(column.place) if config.hyper == one]
        values = _values(runs, records)
        if values:
            found.append(share(values, vanilla, new))
        elif failed(runs, records):
            found.append(-math.inf)
    return min(found, default=None)


def _ranked(standings: Sequence[Standing], counting: Sequence[str]) -> list[Standing]:
    """The rows with means and ranks, the best first; none if no place counts."""
    if not counting or not standings:
        return []
    each = [[standing.cells[name].draws for name in counting] for standing in standings]
    draws = [np.mean([one for one in row if one is not None], axis=0) for row in each]
    means = [float(np.mean([standing.cells[name].share for name in counting])) for standing in standings]
    places = ranks(draws)
    found = [
        Standing(
            standing.row,
            standing.cells,
            standing.failures,
            mean,
            interval(drawn),
            1 + sum(other > mean for other in means),
            interval(place),
        )
        for standing, mean, drawn, place in zip(standings, means, draws, places, strict=True)
    ]
    return sorted(found, key=lambda one: one.rank or 0)
