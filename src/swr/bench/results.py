"""Results as text tables: mean ± standard deviation over the seeds, aligned, as wide as they need to be."""

import math
import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from swr.bench.config import RunConfig
from swr.bench.paper import EXPERIMENTS, published
from swr.bench.store import Record
from swr.methods import find


@dataclass(frozen=True)
class Score:
    """An accuracy over several seeds."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Their mean."""
        return statistics.fmean(self.values)

    @property
    def std(self) -> float | None:
        """Their standard deviation (n - 1), from two on."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    def __str__(self) -> str:
        return f"{self.mean:.4f}" + ("" if self.std is None else f" ± {self.std:.4f}")


def table(records: Sequence[Record]) -> str:
    """Methods x columns: the final test accuracy of the runs that are done, the paper's beside it where it has one.

    A method that was run with several hyper-parameters has a row for each.
    """
    rows = _rows(records)
    scores = _scores(records, rows)
    counts = {len(score.values) for score in scores.values()}
    head, body = [""], [[title] for title in dict.fromkeys(rows.values())]
    for column in dict.fromkeys(record.config.column for record in records):
        there = {rows[record.id]: record.config for record in records if record.config.column == column}
        cells, paper = [], []
        for (title,) in (row[:1] for row in body):
            score = scores.get((title, column))
            count = f" (n={len(score.values)})" if score and len(counts) > 1 else ""
            cells.append("—" if score is None else f"{score}{count}")
            paper.append(_paper(there[title]) if title in there else "")
        for name, values in ((column, cells), ("paper", paper)):
            if any(values):
                head.append(name)
                for row, value in zip(body, values, strict=True):
                    row.append(value)
    seeds = f" over {plural(counts.pop(), 'seed')}" if len(counts) == 1 else ""
    return f"Final test accuracy, mean ± standard deviation{seeds}:\n\n{aligned([head, *body])}"


def gaps(records: Sequence[Record]) -> str:
    """One column: the final test accuracy of every line, and its distance to the cold start."""
    scores = {title: score for (title, _), score in _scores(records, _rows(records)).items()}
    cold = next((scores.get(record.config.title) for record in records if record.config.cold), None)
    rows = [["", "test accuracy", "gap to cold start"]]
    for title, score in scores.items():
        gap = "" if cold is None or score is cold else f"{score.mean - cold.mean:+.4f}"
        rows.append([title, str(score), gap])
    return aligned(rows)


@dataclass(frozen=True)
class Candidate:
    """One point of a sweep's grid, over its seeds."""

    label: str
    """the hyper-parameters with the paper's symbols"""
    test: Score
    validation: Score | None

    def by(self, select: str) -> float:
        """What the sweep selects on; not-a-number loses."""
        score = self.test if select == "test" or self.validation is None else self.validation
        return -math.inf if math.isnan(score.mean) else score.mean


def candidates(records: Sequence[Record], select: str) -> list[Candidate]:
    """The points of a grid, the best first; of equals, the one that comes first in the grid."""
    groups: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        if record.status == "done":
            groups[hyper(record)].append(record)
    found = []
    for label, group in groups.items():
        last = [record.last for record in group if record.last is not None]
        held_out = tuple(epoch.validation_accuracy for epoch in last if epoch.validation_accuracy is not None)
        found.append(Candidate(label, Score(tuple(e.test_accuracy for e in last)), Score(held_out) if held_out else None))
    return sorted(found, key=lambda candidate: -candidate.by(select))


def grid(found: Sequence[Candidate]) -> str:
    """The points of a sweep, one a line."""
    held_out = any(candidate.validation for candidate in found)
    head = ["", *(["validation accuracy"] if held_out else []), "test accuracy", "seeds"]
    rows = [[c.label, *([str(c.validation)] if held_out else []), str(c.test), str(len(c.test.values))] for c in found]
    return aligned([head, *rows])


def hyper(record: Record) -> str:
    """A run's hyper-parameters in words: ``λ=0.001``."""
    symbols = find(record.config.method).symbols
    return " ".join(f"{symbols.get(key, key)}={value:g}" for key, value in record.config.hyper)


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Columns side by side, two spaces apart, a rule below the first row."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([lines[0], "─" * (sum(widths) + 2 * (len(widths) - 1)), *lines[1:]])


def plural(number: int, what: str) -> str:
    """``1 run``, ``2 runs``."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _rows(records: Sequence[Record]) -> dict[str, str]:
    """The row of each run: its method, with the hyper-parameters where there are several."""
    several: dict[tuple[str, str], set[str]] = defaultdict(set)
    for record in records:
        several[record.config.title, record.config.column].add(hyper(record))
    ambiguous = {title for (title, _), found in several.items() if len(found) > 1}
    titles = {record.id: record.config.title for record in records}
    return {r.id: f"{titles[r.id]} {hyper(r)}".strip() if titles[r.id] in ambiguous else titles[r.id] for r in records}


def _scores(records: Sequence[Record], rows: dict[str, str]) -> dict[tuple[str, str], Score]:
    values: dict[tuple[str, str], list[float]] = defaultdict(list)
    for record in records:
        if record.status == "done" and record.last is not None:
            values[rows[record.id], record.config.column].append(record.last.test_accuracy)
    return {key: Score(tuple(group)) for key, group in values.items()}


def _paper(config: RunConfig) -> str:
    """The published result, if the run follows the paper's protocol."""
    found = published(config.experiment, config.column, config.line)
    if found is None or config.validation or config.epochs != EXPERIMENTS[config.experiment].epochs:
        return ""
    return f"{found.mean:.4f} ± {found.std:.4f}"
