"""The first screen of the page: one matrix over all experiments, and three sentences on what it says.

A column of the matrix is an experiment on a dataset and model, each once: under its own protocol if that was run, otherwise
under the one that comes nearest. A cell is coloured by its paired difference to vanilla, d̄ / s_d, with the mean d̄ and the
standard deviation s_d of the differences over the seeds. One seed has no spread, and no colour.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from swr.bench.experiments import COLD, column_title, title
from swr.bench.report.cells import Cell
from swr.bench.report.method_order import place
from swr.bench.report.tables import Table
from swr.bench.words import plural

STEPS = (0.5, 1.0, 2.0)
"""standard deviations from which a cell has the first, second and third shade"""
MANY = 10
"""standard deviations from which the number no longer matters"""
NAMED = 3
"""methods at most that a sentence names"""


@dataclass(frozen=True)
class Place:
    """A column of the matrix."""

    experiment: str
    column: str
    """the name of its dataset and model"""
    label: str
    """what differs from the experiment's protocol; empty if it was followed"""
    measure: str
    lower: bool
    """the smaller the better"""
    cells: dict[tuple[str, str], Cell]
    """by name and title of the row"""

    @property
    def title(self) -> str:
        """The dataset and model as the paper writes them."""
        return column_title(self.column)

    def verdict(self, key: tuple[str, str]) -> int | None:
        """Against vanilla: 1 better, -1 worse, 0 within noise; None if that is not known."""
        cell = self.cells.get(key)
        if cell is None or cell.against is None or cell.against.interval is None:
            return None
        return -cell.against.sign if self.lower else cell.against.sign


@dataclass(frozen=True)
class Shade:
    """A cell as the matrix shows it."""

    cell: Cell
    step: int
    """from -3, far worse than vanilla, to 3, far better"""
    effect: str
    """the difference to vanilla in standard deviations, as text; without a spread the difference itself"""
    verdict: int = 0
    """1 if it is better than vanilla by more than chance, -1 if worse"""


@dataclass(frozen=True)
class Overview:
    """What the first screen shows."""

    groups: list[tuple[str, int]]
    """the title of each experiment, and how many columns it has"""
    places: list[Place]
    rows: list[tuple[str, list[Shade | None]]]
    """the title of each method, and its cells"""
    sentences: list[str]
    elsewhere: list[str]
    """protocols that are shown further down only"""


def overview(tables: Sequence[Table]) -> Overview | None:
    """The matrix of these tables; None if no table compares methods.

    >>> overview([]) is None
    True
    """
    found = places(tables)
    if not found:
        return None
    keys = sorted({key for one in found for key in one.cells}, key=lambda key: (place(key[0]), key[1]))
    names = list(dict.fromkeys(one.experiment for one in found))
    shown = {(one.experiment, one.label) for one in found}
    others = [one for one in tables if one.kind == "methods" and (one.experiment, one.label) not in shown]
    return Overview(
        groups=[(title(name), sum(one.experiment == name for one in found)) for name in names],
        places=found,
        rows=[(key[1], [_shade(one, key) for one in found]) for key in keys],
        sentences=sentences(found),
        elsewhere=[f"{title(one.experiment)} ({one.label})" for one in others],
    )


def places(tables: Iterable[Table]) -> list[Place]:
    """The columns of the matrix, an experiment's side by side."""
    found: dict[tuple[str, str], Place] = {}
    for table in sorted((table for table in tables if table.kind == "methods"), key=lambda table: bool(table.label)):
        for index, column in enumerate(table.places):
            if (table.experiment, column) not in found:
                cells = {(row.line, row.title): row.cells[index] for row in table.rows if row.cells[index].runs}
                one = Place(table.experiment, column, table.label, table.measure, table.lower, cells)
                found[table.experiment, column] = one
    order = list(dict.fromkeys(experiment for experiment, _ in found))
    return sorted(found.values(), key=lambda one: order.index(one.experiment))


def sentences(places: Sequence[Place]) -> list[str]:
    """What was run, which methods differ by more than chance, and how much is within noise."""
    seeds = [cell.done for one in places for cell in one.cells.values() if cell.done]
    if not seeds:
        return ["No run has finished yet."]
    lines = {key for one in places for key in one.cells}
    span = f"{min(seeds)} to {plural(max(seeds), 'seed')}" if min(seeds) < max(seeds) else plural(seeds[0], "seed")
    what = f"{plural(len(lines), 'method')}, references included, on {plural(len(places), 'column')}, {span} a cell"
    single = sum(all(cell.done < 2 for cell in one.cells.values()) for one in places)
    what += f"; {single} of the columns {'has' if single == 1 else 'have'} one seed: no spread, no verdict." if single else "."
    known = {key: [v for one in places if (v := one.verdict(key)) is not None] for key in lines if key[0] != COLD}
    total, decided = sum(map(len, known.values())), sum(abs(v) for found in known.values() for v in found)
    if not total:
        return [what, "No method can be compared with vanilla yet: that takes two seeds that both have."]
    best = {key: [int(one.cells[key].best) for one in places if key in one.cells] for key in lines}
    ahead, behind, first = _tally(known, 1), _tally(known, -1), _tally(best, 1)
    verdict = f"Better than vanilla by more than chance: {ahead or 'no method'}; worse: {behind or 'none'}"
    noise = (
        f"{total - decided} of {plural(total, 'comparison')} with vanilla are within noise: the 95 % interval of the paired "
        f"difference contains zero. Of {total}, about {max(1, round(total / 20))} would look decided by chance alone."
    )
    return [what, f"{verdict}; ahead of every other method: {first or 'none'}.", noise]


def _tally(known: dict[tuple[str, str], list[int]], sign: int) -> str:
    """The methods with this verdict, most often first: ``SWR (2 of 5 columns)``."""
    counts = {key: found.count(sign) for key, found in known.items() if sign in found}
    order = sorted(counts, key=lambda key: (-counts[key], place(key[0]), key[1]))
    texts = [f"{key[1]} ({counts[key]} of {plural(len(known[key]), 'column')})" for key in order[:NAMED]]
    if len(order) > NAMED:
        texts.append(f"{len(order) - NAMED} more")
    return ", ".join(texts)


def _shade(one: Place, key: tuple[str, str]) -> Shade | None:
    cell = one.cells.get(key)
    if cell is None:
        return None
    against = cell.against
    if against is None:
        return Shade(cell, 0, "")
    effect = against.effect
    if effect is None:
        return Shade(cell, 0, signed(against.difference) if math.isfinite(against.difference) else "")
    step = sum(abs(effect) >= limit for limit in STEPS)
    better = (effect < 0) if one.lower else (effect > 0)
    size = signed(effect, 1) if abs(effect) < MANY else f"{'≥' if effect > 0 else '≤'} {signed(math.copysign(MANY, effect), 0)}"
    return Shade(cell, step if better else -step, f"{size} sd", one.verdict(key) or 0)


def signed(value: float, digits: int = 4) -> str:
    """A difference as text.

    >>> signed(-0.0123)
    '−0.0123'
    """
    return f"{value:+.{digits}f}".replace("-", "−")
