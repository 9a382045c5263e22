"""The board in words: one table of scores, one of accuracies with the commands that repeat them, and the notes below."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from swr.bench.experiments.board import LEFT_OUT, NOT_IN_STREAMS, VANILLA, Row, fresh
from swr.bench.experiments.run_description import command
from swr.bench.experiments.study import Point
from swr.bench.report.leaderboard.costs import Cost, origins
from swr.bench.report.leaderboard.standings import Board, Column, Standing
from swr.bench.report.statistics import summary
from swr.bench.words import plural
from swr.methods import describe

EMPTY = "nothing is finished yet: `swr leaderboard` runs it"
"""in place of a board"""


@dataclass(frozen=True)
class Text:
    """A table of words."""

    head: list[str]
    rows: list[list[str]]


def scores(board: Board, costs: Mapping[str, Cost]) -> Text:
    """Rank, mean and places of every row, and what it costs.

    Args:
        costs: By method, as they were recorded.
    """
    head = ["method", "rank", "mean share", *(_title(column) for column in board.columns)]
    rows = []
    for one in board.standings:
        cost = costs.get(one.row.method)
        rows.append(
            [
                one.row.title,
                _rank(one),
                _with_interval(one.mean, one.interval),
                *(_cell(one, column) for column in board.columns),
                f"{cost.step:.2f}" if cost else "",
                f"{cost.memory:.2f}" if cost else "",
                str(0 if one.row.untuned else len(one.row.points)),
                _neighbour(one),
            ]
        )
    return Text([*head, "step", "memory", "tried", "worst neighbour"], rows)


def accuracies(board: Board) -> Text:
    """Every cell as it was measured, the two references first, with the command that repeats it."""
    rows = []
    for column in board.columns:
        for line, title in ((VANILLA, VANILLA), (fresh(column.place), "fresh network")):
            config = column.place.config(line, (), column.place.reported[0])
            again = command(config, column.place.reported) or ""
            rows.append([column.place.title, title, "", _mean(column.values[line]), "", again])
        for one in board.standings:
            cell = one.cells.get(column.place.name)
            if cell is not None:
                found = cell.against
                low, high = found.interval or (found.difference, found.difference)
                difference = f"{found.difference:+.4f} [{low:+.4f}, {high:+.4f}]"
                values = [_mean(cell.values), difference, cell.command]
                rows.append([column.place.title, one.row.title, _point(one.row, cell.point), *values])
    return Text(["place", "method", "configuration", "accuracy", "against vanilla", "command"], rows)


def notes(board: Board) -> list[str]:
    """What a reader has to know, as sentences."""
    found = []
    for column in board.columns:
        n = plural(len(column.place.reported), "seed")
        lost = sum(column.fresh.values()) / len(column.fresh) - sum(column.vanilla.values()) / len(column.vanilla)
        name, compared = column.place.title, f"{lost:+.4f} over {n}"
        if not column.lost:
            text = f"a fresh network is not clearly better than plain training ({compared}), so that there is no share"
            found.append(f"{name}: {text}; cells are differences of accuracy to vanilla, {_finished(board, column)}.")
        elif column.counts:
            found.append(f"{name}: a fresh network is better than plain training by {compared}.")
        else:
            of = _finished(board, column)
            found.append(f"{name}: {of}; it will count in means and ranks when all rows of this page are finished there.")
    for one in board.standings:
        for column in board.columns:
            if failure := one.failures.get(column.place.name):
                words = ", ".join(_point(one.row, point) or "its one configuration" for point in failure.points)
                end = "the row has no cell there" if failure.final else "not chosen"
                found.append(f"{one.row.title}: {words} failed on {column.place.title}, {end}.")
    found += _edges(board)
    if board.missing:
        found.append(f"{plural(board.missing, 'row')} not finished in any of these places.")
    if any(set(NOT_IN_STREAMS) & set(one.row.method.split("+")) for one in board.standings):
        found.append("Rows with EMA have no cell for streams: online accuracies are measured on the weights that are trained.")
    found += [f"{name} has no row: it {why}." for name, why in LEFT_OUT.items()]
    found += [f"Costs were measured with {one}." for one in origins()]
    return found


def _edges(board: Board) -> list[str]:
    """Which rows were best at the first or the last of at least three values, place by place."""
    found = []
    for column in board.columns:
        cells = [(one.row, one.cells.get(column.place.name)) for one in board.standings if len(one.row.points) > 2]
        at = [row.title for row, cell in cells if cell is not None and cell.point in (row.points[0], row.points[-1])]
        if column.lost and at:
            text = "best at the first or the last of the values tried, so that one beyond may be better"
            found.append(f"{column.place.title}: {text}: {'; '.join(at)}.")
    return found


def _finished(board: Board, column: Column) -> str:
    done = sum(column.place.name in one.cells for one in board.standings)
    return f"{done} of {plural(len(board.standings) + board.missing, 'row')} finished"


def _title(column: Column) -> str:
    return column.place.title + ("" if column.lost else " (difference)")


def _rank(one: Standing) -> str:
    if one.rank is None or one.ranks is None:
        return ""
    low, high = (round(end) for end in one.ranks)
    return f"{one.rank} ({low})" if low == high else f"{one.rank} ({low}–{high})"


def _cell(one: Standing, column: Column) -> str:
    cell = one.cells.get(column.place.name)
    if cell is None:
        return "fails" if column.place.name in one.failures and one.failures[column.place.name].final else ""
    at = _point(one.row, cell.point)
    text = f"{cell.against.difference:+.4f}" if cell.share is None else _with_interval(cell.share, cell.interval)
    return f"{text} ({at})" if at and not one.row.untuned else text


def _neighbour(one: Standing) -> str:
    if one.neighbour is None:
        return ""
    return "fails" if one.neighbour == -math.inf else f"{one.neighbour:.2f}"


def _point(row: Row, point: Point) -> str:
    """The configuration with the paper's symbols; of a composition only what was tuned."""
    _, symbols = describe(row.method)
    fixed = set.intersection(*map(set, row.points)) if len(row.points) > 1 else set()
    return " ".join(f"{symbols.get(key, key)}={value:g}" for key, value in point if (key, value) not in fixed)


def _with_interval(value: float | None, interval: tuple[float, float] | None) -> str:
    if value is None or interval is None:
        return ""
    return f"{value:.2f} [{interval[0]:.2f}, {interval[1]:.2f}]"


def _mean(values: Mapping[int, float]) -> str:
    found = summary(list(values.values()))
    assert found is not None
    return f"{found.mean:.4f}" + ("" if found.std is None else f" ± {found.std:.4f}") + f" (n={len(values)})"
