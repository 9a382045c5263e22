"""Results as text tables for a terminal: mean ± standard deviation over the seeds."""

import math
import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from swr.bench.experiments import TEST
from swr.bench.experiments.expansion import Select
from swr.bench.report.formats import caption, grid
from swr.bench.report.statistics import deviation
from swr.bench.report.tables import Table, tables
from swr.bench.store import Record
from swr.bench.training.online import final
from swr.bench.words import aligned, wrapped


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
        return deviation(self.values)

    def __str__(self) -> str:
        return f"{self.mean:.4f}" + ("" if self.std is None else f" ± {self.std:.4f}")


def table(records: Sequence[Record]) -> str:
    """Methods x columns: the final test accuracy of the runs, with the paper's if they follow its protocol.

    Runs of another length, with held-out data or with other hyper-parameters have tables of their own.
    """
    return "\n\n".join(map(text, tables(records)))


def text(table: Table) -> str:
    """One table for a terminal."""
    head, rows = grid(table)
    body = [[entry.text + (f" ({entry.remark})" if entry.remark else "") for entry in row] for row in rows]
    starts = [index for index, name in enumerate(head) if index and name not in ("paper", "difference")]
    return f"{wrapped(f'{caption(table)}:')}\n\n{aligned([head, *body], starts=starts)}"


def gaps(records: Sequence[Record]) -> str:
    """One column: the final test accuracy of every line, and its distance to the cold start."""
    values: dict[str, list[float]] = defaultdict(list)
    for record in records:
        if record.status == "done" and record.last is not None:
            values[record.config.title].append(record.last.test_accuracy)
    scores = {title: Score(tuple(group)) for title, group in values.items()}
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
    """or the value of another metric"""
    validation: Score | None
    lower: bool = False
    """the smaller the better"""

    def by(self, select: Select) -> float:
        """What the sweep selects on, the larger the better; not-a-number is the worst."""
        score = self.test if select == "test" or self.validation is None else self.validation
        return -math.inf if math.isnan(score.mean) else -score.mean if self.lower else score.mean


def candidates(records: Sequence[Record], select: Select) -> list[Candidate]:
    """The points of a grid, the best first; of equals, the one that comes first in the grid."""
    groups: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        if record.status == "done":
            groups[record.config.hyper_text].append(record)
    found = []
    for label, group in groups.items():
        config = group[0].config
        last = [record.last for record in group if record.last is not None]
        held_out = tuple(epoch.validation_accuracy for epoch in last if epoch.validation_accuracy is not None)
        test = Score(tuple(final(config, epoch) for epoch in last))
        found.append(Candidate(label, test, Score(held_out) if held_out else None, config.setting.metric.lower))
    return sorted(found, key=lambda candidate: -candidate.by(select))


def points(found: Sequence[Candidate], judged: str = TEST.name) -> str:
    """The points of a sweep, one a line.

    Args:
        judged: The name of the metric.
    """
    held_out = any(candidate.validation for candidate in found)
    head = ["", *(["validation accuracy"] if held_out else []), judged, "seeds"]
    rows = [[c.label, *([str(c.validation)] if held_out else []), str(c.test), str(len(c.test.values))] for c in found]
    return aligned([head, *rows])
