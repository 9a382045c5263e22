"""Numbers over seeds: mean, spread, interval, and whether a difference is more than chance.

With values x_1 … x_n of n seeds,

    mean      x̄ = Σ x_i / n
    std       s = √(Σ (x_i - x̄)² / (n - 1))
    interval  x̄ ± t(n - 1) s / √n,   t(k) the 97.5 % point of Student's distribution with k degrees of freedom
    test      with d_i = x_i - y_i over the seeds that both have, T = d̄ / (s_d / √n), two-sided, n - 1 degrees of freedom

One seed has a mean and nothing else. A value that is not a number makes the mean not a number, and everything else unknown.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scipy.special import stdtr, stdtrit

LEVEL = 0.95
"""of the intervals"""


@dataclass(frozen=True)
class Summary:
    """What some values have in common."""

    mean: float
    std: float | None
    """from two values on"""
    interval: tuple[float, float] | None
    """where the true mean lies with 95 % confidence; from two values on"""


@dataclass(frozen=True)
class Comparison:
    """A paired comparison."""

    difference: float
    """mean of the differences"""
    p: float | None
    """the probability of a difference this large by chance; None with fewer than two pairs"""
    pairs: int


def summary(values: Sequence[float]) -> Summary | None:
    """Mean, standard deviation and interval; None of no values.

    >>> found = summary([0.70, 0.72, 0.74])
    >>> f"{found.mean:.2f} ± {found.std:.2f}, {found.interval[0]:.4f} to {found.interval[1]:.4f}"
    '0.72 ± 0.02, 0.6703 to 0.7697'
    """
    if not values:
        return None
    mean = math.fsum(values) / len(values) if all(map(math.isfinite, values)) else sum(values) / len(values)
    std = deviation(values)
    if std is None or not math.isfinite(std):
        return Summary(mean, None, None)
    half = quantile(len(values) - 1) * std / math.sqrt(len(values))
    return Summary(mean, std, (mean - half, mean + half))


def paired(ours: Mapping[int, float], others: Mapping[int, float]) -> Comparison | None:
    """Student's t-test over the pairs; None when no seed is in both.

    Differences that are all the same have no spread to be judged by: if they are zero, p is 1; else it is 0, the limit of
    the test for a vanishing spread.

    >>> paired({0: 0.71, 1: 0.72, 2: 0.75}, {0: 0.65, 1: 0.64, 2: 0.68, 3: 0.66}).pairs
    3

    Args:
        ours: Values by seed.
        others: The same of the other side.
    """
    seeds = [seed for seed in ours if seed in others]
    differences = [ours[seed] - others[seed] for seed in seeds]
    found = summary(differences)
    if found is None:
        return None
    if found.std is None:
        return Comparison(found.mean, None, len(seeds))
    if found.std <= 1e-12 * max(map(abs, differences)):  # rounding alone: 0.3 - 0.2 is not 0.2 - 0.1
        return Comparison(found.mean, 1.0 if found.mean == 0 else 0.0, len(seeds))
    statistic = found.mean / (found.std / math.sqrt(len(seeds)))
    return Comparison(found.mean, float(2 * stdtr(len(seeds) - 1, -abs(statistic))), len(seeds))


def deviation(values: Sequence[float]) -> float | None:
    """The standard deviation with n - 1, from two values on; not-a-number when a value is not finite.

    >>> deviation([1.0, 2.0, 3.0])
    1.0
    """
    if len(values) < 2:
        return None
    if not all(map(math.isfinite, values)):
        return math.nan
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


def quantile(freedom: int) -> float:
    """t(k): how many standard errors an interval reaches to each side.

    >>> round(quantile(4), 3)
    2.776
    """
    return float(stdtrit(freedom, (1 + LEVEL) / 2))
