"""The share of the lost plasticity that a method recovers, with bootstrap intervals over the seeds.

With the values x_i of a method, v_i of vanilla and f_i of the fresh network over seeds i,

    share     Σ (x_i - v_i) / Σ (f_i - v_i)
    interval  the 2.5 % and 97.5 % points of the same over seeds that are drawn with replacement

A draw takes whole seeds, with all three values of each, and the same draws serve every method: what two methods have in common
does not blur which of them is ahead. The random numbers are Python's own from fixed seeds, so that a table can be made again
digit by digit. With five seeds such an interval is somewhat too narrow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from swr.bench.report.statistics import paired

DRAWS = 2000
LEVEL = (0.025, 0.975)

Floats = NDArray[np.float64]
Values = Mapping[int, float]
"""by seed"""


def is_lost(vanilla: Values, fresh: Values) -> bool:
    """Whether vanilla has clearly lost something: it is below the fresh network for every seed, and the interval says so too.

    >>> is_lost({0: 0.5, 1: 0.6}, {0: 0.8, 1: 0.9}), is_lost({0: 0.5, 1: 0.9}, {0: 0.8, 1: 0.8}), is_lost({0: 0.5}, {0: 0.9})
    (True, False, False)
    """
    found = paired(fresh, vanilla)
    return found is not None and found.sign > 0 and min(found.differences.values()) > 0


def share(method: Values, vanilla: Values, fresh: Values) -> float:
    """The share itself, over the seeds of the method.

    >>> round(share({0: 0.75, 1: 0.70}, {0: 0.5, 1: 0.6}, {0: 0.8, 1: 0.8}), 3)
    0.7
    """
    gained = sum(method[seed] - vanilla[seed] for seed in method)
    return gained / sum(fresh[seed] - vanilla[seed] for seed in method)


def resampled(method: Values, vanilla: Values, fresh: Values, stream: str) -> Floats:
    """The share in every draw of seeds.

    Args:
        stream: The draws of one stream are the same for all methods, and others than those of another stream.
    """
    seeds = sorted(method)
    gained = np.array([method[seed] - vanilla[seed] for seed in seeds])
    lost = np.array([fresh[seed] - vanilla[seed] for seed in seeds])
    chosen = draws(len(seeds), stream)
    found: Floats = gained[chosen].sum(1) / lost[chosen].sum(1)
    return found


@cache
def draws(count: int, stream: str) -> NDArray[np.int64]:
    """Places of seeds, drawn with replacement: one row for each draw."""
    random = Random(f"leaderboard {stream}")
    return np.array([[int(random.random() * count) for _ in range(count)] for _ in range(DRAWS)])


def interval(values: Floats) -> tuple[float, float]:
    """What lies in the middle 95 %."""
    low, high = np.quantile(values, LEVEL)
    return float(low), float(high)


def ranks(scores: Sequence[Floats]) -> NDArray[Any]:
    """The place of every row in each draw: one more than the rows above it.

    >>> ranks([np.array([0.9, 0.2]), np.array([0.5, 0.5])]).tolist()
    [[1, 2], [2, 1]]
    """
    table = np.array(scores)
    return 1 + np.array([(table > row).sum(0) for row in table])
