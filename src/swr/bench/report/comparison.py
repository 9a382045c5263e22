"""Two methods on one column, or one method in two stores: the paired difference, its interval, and every seed."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from textwrap import fill
from typing import Any

from swr.bench import experiments
from swr.bench.report.cells import Cell
from swr.bench.report.method_order import place
from swr.bench.report.overview import Place, places
from swr.bench.report.results import Results
from swr.bench.report.statistics import Comparison, paired
from swr.bench.report.tables import tables
from swr.bench.report.text_chart import WIDTH, Series, beside
from swr.bench.words import plural
from swr.errors import SWRError


class ComparisonError(SWRError):
    """What was asked to be compared is not in the store, or has nothing in common."""


@dataclass(frozen=True)
class Side:
    """One of two things that are compared."""

    title: str
    values: Mapping[int, float]
    """by seed"""


def find_place(results: Results, experiment: str, column: str, store: object) -> Place:
    """The runs of an experiment on a column, under the protocol or the one nearest to it.

    Args:
        store: Its name, for the sentence if there are none.
    """
    found = places(tables(results.records, results.epochs))
    for one in found:
        if (one.experiment, one.column) == (experiment, column):
            return one
    there = [f"{one.experiment} {one.column}" for one in found]
    known = f"it has {', '.join(there)}" if there else "it has none that compare methods"
    raise ComparisonError(f"{store} holds no runs of {experiment} on {column}: {known}.")


def find_side(one: Place, name: str) -> Side:
    """A method of a column, by its name or its title."""
    found = {key: cell for key, cell in one.cells.items() if name in key}
    if len(found) == 1:
        ((_, title), cell) = found.popitem()
        return Side(title, cell.values)
    there = ", ".join(_short(key, one.cells) for key in one.cells)
    problem = f"{name} stands for several rows" if found else f"there is no {name}"
    raise ComparisonError(f"{problem} in {one.experiment} on {one.column}: choose two of {there}.")


def _short(key: tuple[str, str], cells: Mapping[tuple[str, str], Cell]) -> str:
    """The name of a method; its title where it has several rows."""
    return key[0] if sum(other[0] == key[0] for other in cells) == 1 else f"'{key[1]}'"


def of_methods(one: Place, ours: Side, other: Side) -> str:
    """Two methods: every seed, the paired difference with its interval, and a chart, as text."""
    found = _paired(ours, other, one)
    rows = [["seed", ours.title, other.title, "difference"]]
    series: list[Series] = []
    for seed, value in found.differences.items():
        rows.append([str(seed), f"{ours.values[seed]:.4f}", f"{other.values[seed]:.4f}", f"{value:+.4f}"])
        series.append(([value], None))
    means = [math.fsum(side.values[seed] for seed in found.differences) / found.pairs for side in (ours, other)]
    rows.append(["mean", *(f"{mean:.4f}" for mean in means), f"{found.difference:+.4f}"])
    series.append(([found.difference], found.interval))
    verdict = fill(sentence(found, ours.title, other.title, lower=one.lower), WIDTH)
    return f"{ours.title} minus {other.title}: {_what(one)}\n\n{beside(rows, series)}\n\n{verdict}"


def of_stores(ours: Place, other: Place, names: tuple[str, str]) -> str:
    """The same methods in two stores: a line for each, with a mark for every seed, as text."""
    if ours.label != other.label or ours.measure != other.measure:
        raise ComparisonError(
            f"the stores ran {ours.experiment} on {ours.column} differently ({ours.label or 'as in the protocol'}; "
            f"{other.label or 'as in the protocol'}): compare runs of one protocol."
        )
    common = sorted(set(ours.cells) & set(other.cells), key=lambda key: (place(key[0]), key[1]))
    found = {key[1]: paired(ours.cells[key].values, other.cells[key].values) for key in common}
    known = {title: one for title, one in found.items() if one is not None}
    if not known:
        raise ComparisonError(f"no method has a finished seed of {ours.experiment} on {ours.column} in both stores.")
    rows = [["method", "difference", "95 % interval", "p"]]
    for title, one in known.items():
        between = f"{one.interval[0]:+.4f} to {one.interval[1]:+.4f}" if one.interval else "one seed"
        rows.append([title, f"{one.difference:+.4f}", between, _chance(one.p)])
    series: list[Series] = [(list(one.differences.values()), one.interval) for one in known.values()]
    decided = [title for title, one in known.items() if one.sign]
    verdict = f"By more than chance: {', '.join(decided) or 'none'}. A mark is a seed, a bar the interval."
    if not any(value for one in known.values() for value in one.differences.values()):
        verdict = "The stores agree in every seed, to the last digit."
    return f"{names[0]} minus {names[1]}: {_what(ours)}\n\n{beside(rows, series)}\n\n{verdict}"


def sentence(found: Comparison, ours: str, other: str, *, lower: bool = False) -> str:
    """The verdict in words.

    >>> sentence(paired({0: 0.7, 1: 0.8}, {0: 0.7, 1: 0.8}), "SWR", "L2")
    'SWR and L2 are equal in each of 2 seeds.'
    """
    if not any(found.differences.values()):
        return f"{ours} and {other} are equal in {'the one seed' if found.pairs == 1 else f'each of {found.pairs} seeds'}."
    if found.interval is None:
        return f"{ours} minus {other} is {found.difference:+.4f} with one seed: its spread is not known, so nothing is decided."
    low, high = found.interval
    numbers = f"{ours} minus {other} is {found.difference:+.4f}, 95 % interval {low:+.4f} to {high:+.4f}"
    counted = f"{plural(found.pairs, 'pair')} of runs, {_chance(found.p, 'p')}"
    if not found.sign:
        return f"{numbers} ({counted}): within noise."
    better = ours if (found.sign < 0) == lower else other
    return f"{numbers} ({counted}): {better} is better, by more than chance."


def pairs(places: Sequence[Place]) -> dict[str, Any]:
    """Every two methods on every column that both have, for the page: numbers to five digits.

    >>> pairs([])
    {'lines': [], 'methods': [], 'places': [], 'pairs': {}}
    """
    keys = sorted({key for one in places for key in one.cells}, key=lambda key: (place(key[0]), key[1]))
    found: dict[str, list[dict[str, Any]]] = {}
    for (i, ours), (j, other) in combinations(enumerate(keys), 2):
        for index, one in enumerate(places):
            if ours in one.cells and other in one.cells:
                compared = paired(one.cells[ours].values, one.cells[other].values)
                if compared is not None and math.isfinite(compared.difference):
                    found.setdefault(f"{i} {j}", []).append({"place": index, **_numbers(compared)})
    return {
        "lines": [line for line, _ in keys],
        "methods": [name for _, name in keys],
        "places": [
            {
                "title": experiments.title(one.experiment),
                "column": one.title + (f", {one.label}" if one.label else ""),
                "lower": one.lower,
            }
            for one in places
        ],
        "pairs": found,
    }


def _paired(ours: Side, other: Side, one: Place) -> Comparison:
    found = paired(ours.values, other.values)
    if found is None:
        where = f"in {one.experiment} on {one.column}"
        raise ComparisonError(f"{ours.title} and {other.title} have no finished seed in common {where}: run both.")
    return found


def _what(one: Place) -> str:
    label = f", {one.label}" if one.label else ""
    return f"{one.measure}, {one.experiment} on {one.title}{label}"


def _chance(p: float | None, name: str = "") -> str:
    if p is None:
        return ""
    text = "< 0.0001" if p < 0.0001 else f"{p:.2g}"
    return text if not name else f"{name} {text}" if text.startswith("<") else f"{name} = {text}"


def _numbers(found: Comparison) -> dict[str, Any]:
    def short(value: float) -> float:
        return float(f"{value:.5g}")

    return {
        "difference": short(found.difference),
        "interval": [short(end) for end in found.interval] if found.interval else None,
        "p": short(found.p) if found.p is not None else None,
        "sign": found.sign,
        "seeds": {str(seed): short(value) for seed, value in found.differences.items()},
    }
