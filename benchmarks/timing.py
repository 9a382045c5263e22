"""Time candidates side by side in one run, and compare them as ratios.

The clock is this thread's processor time, so that other processes count less; the order turns from round to round, and the
median of the rounds' ratios is taken, so that a slow moment of the machine hits both sides.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

Times = dict[str, list[float]]
Row = tuple[str, str, float, str]
"""what, which cost, its ratio, the bound on it"""


def side_by_side(candidates: dict[str, Callable[[], object]], rounds: int, inner: int = 1) -> Times:
    """Seconds a call of each candidate, in every round."""
    times: Times = {name: [] for name in candidates}
    names = list(candidates)
    for call in candidates.values():
        call()
    for round_ in range(rounds):
        turn = round_ % len(names)
        for name in names[turn:] + names[:turn]:
            start = time.thread_time()
            for _ in range(inner):
                candidates[name]()
            times[name].append((time.thread_time() - start) / inner)
    return times


def ratio(times: Times, above: str, below: str) -> float:
    """The median over the rounds."""
    return statistics.median(a / b for a, b in zip(times[above], times[below], strict=True))


def show(rows: Sequence[Row]) -> None:
    """A table of ratios and their bounds."""
    width = max(len(row[0]) for row in rows), max(len(row[1]) for row in rows)
    print(f"{'':<{width[0]}}  {'cost':<{width[1]}}  ratio  bound")
    for what, cost, value, bound in rows:
        print(f"{what:<{width[0]}}  {cost:<{width[1]}}  {value:5.3f}  {bound}")
