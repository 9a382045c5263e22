"""Runs as lines of a chart: which share a pair of axes, and a value over the epochs as mean and spread over the seeds."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from swr.bench.experiments import column_title, run_description
from swr.bench.report.method_order import column_place, place
from swr.bench.report.results import Results
from swr.bench.store import Record
from swr.bench.training import Epoch
from swr.bench.training.online import final

Floats = NDArray[np.float64]
Hyper = tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Line:
    """A method with one choice of hyper-parameters, over its seeds."""

    name: str
    """``swr``, or ``cold`` for the reference"""
    title: str
    records: tuple[Record, ...]


@dataclass(frozen=True)
class Panel:
    """The lines that share a pair of axes: an experiment on a column, under one protocol."""

    experiment: str
    column: str
    title: str
    """the column, and what differs from the paper's protocol"""
    stages: tuple[int, ...]
    """epochs of each"""
    drops: tuple[int, ...]
    """epochs at whose start the learning rate falls"""
    factor: float
    """by which it is multiplied then"""
    lines: tuple[Line, ...]
    left_out: tuple[str, ...]
    """titles of methods of which only one choice of hyper-parameters is drawn"""
    label: str = ""
    """what differs from the paper's protocol"""

    def shift(self, line: Line) -> int:
        """The epoch before a line's first: a cold start trains the last stage only, and is drawn there."""
        return sum(self.stages[:-1]) if line.records[0].config.cold else 0


@dataclass(frozen=True)
class Curve:
    """A value over the epochs: mean, standard deviation (n - 1) and number of runs at each."""

    epochs: NDArray[np.int64]
    mean: Floats
    std: Floats
    """0 where there is one run"""
    runs: NDArray[np.int64]


def panels(results: Results) -> list[Panel]:
    """What to draw, columns in the paper's order; runs that hold out validation data are drawn as sweeps instead."""
    groups: dict[tuple[str, str, run_description.Deviations], list[Record]] = defaultdict(list)
    for record in results.records:
        if not record.config.validation:
            groups[record.config.experiment, record.config.column, run_description.deviations(record.config)].append(record)
    found = []
    for (experiment, column, _), records in groups.items():
        lines, left_out = _lines(records)
        first = records[0].config
        label = run_description.label(first)
        title = ", ".join(filter(None, [column_title(column), label]))
        found.append(Panel(experiment, column, title, first.epochs, first.lr_drops, first.lr_factor, lines, left_out, label))
    return sorted(found, key=lambda panel: (bool(panel.label), column_place(panel.column)))


def curve(runs: Iterable[Sequence[Epoch]], value: Callable[[Epoch], float | None]) -> Curve:
    """A value of every epoch over several runs; what is missing or not finite does not count."""
    runs = list(runs)
    values = np.full((len(runs), max((epochs[-1].epoch for epochs in runs if epochs), default=0)), np.nan)
    for row, epochs in zip(values, runs, strict=True):
        row[[epoch.epoch - 1 for epoch in epochs]] = [np.nan if (v := value(epoch)) is None else v for epoch in epochs]
    there = np.isfinite(values)
    counts = there.sum(0)
    at = np.flatnonzero(counts)
    values, there, counts = values[:, at], there[:, at], counts[at]
    mean = np.where(there, values, 0).sum(0) / counts
    squares = (np.where(there, values - mean, 0) ** 2).sum(0)
    return Curve(at + 1, mean, np.sqrt(squares / np.maximum(counts - 1, 1)), counts)


def thinned(epochs: Sequence[int], limit: int, keep: Iterable[int] = ()) -> list[int]:
    """About ``limit`` of these epochs, evenly; the first, the last and those of ``keep`` are among them.

    >>> thinned(range(1, 11), 4, keep=[6])
    [1, 4, 6, 7, 10]
    """
    stride = -(-len(epochs) // limit) if epochs else 1
    wanted = {*epochs[::stride], *epochs[-1:], *(set(keep) & set(epochs))}
    return sorted(wanted)


def drawn(line: Line, results: Results) -> list[list[Epoch]]:
    """The epochs of a line's runs; a run that failed is not drawn."""
    return [results.epochs.get(record.id, []) for record in line.records if record.status != "failed"]


def finals(records: Iterable[Record], value: Callable[[Epoch], float | None]) -> list[float]:
    """A value of the last epoch of the runs that are done."""
    last = [value(record.last) for record in records if record.status == "done" and record.last is not None]
    return [number for number in last if number is not None and np.isfinite(number)]


def mean(values: Sequence[float]) -> float:
    """Their mean; not-a-number without any."""
    return float(np.mean(values)) if values else float("nan")


def _lines(records: Sequence[Record]) -> tuple[tuple[Line, ...], tuple[str, ...]]:
    """A line per method, and the titles of those that were run with several hyper-parameters."""
    groups: dict[str, dict[Hyper, list[Record]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        groups[record.config.line][record.config.hyper].append(record)
    titles = Counter(next(iter(choices.values()))[0].config.title for choices in groups.values())
    lines, several = [], []
    for name, choices in sorted(groups.items(), key=lambda item: place(item[0])):
        chosen = _chosen(choices)
        title = chosen[0].config.title
        lines.append(Line(name, title if titles[title] == 1 else f"{title} ({name})", tuple(chosen)))
        several += [title] if len(choices) > 1 else []
    return tuple(lines), tuple(several)


def _chosen(choices: dict[Hyper, list[Record]]) -> list[Record]:
    """Of several choices of hyper-parameters the protocol's; without one, that of the best final result."""
    groups = list(choices.values())
    reference = run_description.reference(groups[0][0].config)
    if reference is not None and reference.hyper in choices:
        return choices[reference.hyper]
    config = groups[0][0].config
    scores = np.array([mean(finals(group, lambda epoch: final(config, epoch))) for group in groups])
    scores = -scores if config.setting.metric.lower else scores
    return groups[int(np.argmax(np.nan_to_num(scores, nan=-np.inf)))]
