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
from dataclasses import dataclass, replace

from scipy.special import stdtr, stdtrit

LEVEL = 0.95
"""of the intervals"""
ROUNDING = 1e-12
"""a relative spread below this is rounding alone: 0.3 - 0.2 is not 0.2 - 0.1"""


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

    differences: dict[int, float]
    """by seed, in order"""
    difference: float
    """their mean"""
    std: float | None
    """their standard deviation; None with fewer than two pairs"""
    interval: tuple[float, float] | None
    """where the true mean difference lies with 95 % confidence; None with fewer than two pairs"""
    p: float | None
    """the probability of a difference this large by chance; None with fewer than two pairs"""

    @property
    def pairs(self) -> int:
        """Seeds that both have."""
        return len(self.differences)

    @property
    def sign(self) -> int:
        """1 or -1 if the interval lies on that side of zero; 0 if it contains zero, or there is none."""
        return 0 if self.interval is None else (self.interval[0] > 0) - (self.interval[1] < 0)

    @property
    def effect(self) -> float | None:
        """The mean difference in standard deviations of the differences; None without a spread to measure by."""
        if self.std is None:
            return None
        if self.std <= ROUNDING * abs(self.difference):
            return math.copysign(math.inf, self.difference) if self.difference else 0.0
        return self.difference / self.std if self.std else 0.0

    def reversed(self) -> "Comparison":
        """The same of the other side."""
        turned = {seed: -value for seed, value in self.differences.items()}
        interval = (-self.interval[1], -self.interval[0]) if self.interval else None
        return replace(self, differences=turned, difference=-self.difference, interval=interval)


def summary(values: Sequence[float], bounds: tuple[float, float] | None = None) -> Summary | None:
    """Mean, standard deviation and interval; None of no values.

    >>> found = summary([0.70, 0.72, 0.74])
    >>> f"{found.mean:.2f} ± {found.std:.2f}, {found.interval[0]:.4f} to {found.interval[1]:.4f}"
    '0.72 ± 0.02, 0.6703 to 0.7697'

    Args:
        bounds: Values cannot lie outside, so the interval does not either: 0 and 1 for accuracies.
    """
    if not values:
        return None
    mean = math.fsum(values) / len(values) if all(map(math.isfinite, values)) else sum(values) / len(values)
    std = deviation(values)
    if std is None or not math.isfinite(std):
        return Summary(mean, None, None)
    half = quantile(len(values) - 1) * std / math.sqrt(len(values))
    low, high = bounds or (-math.inf, math.inf)
    return Summary(mean, std, (max(low, mean - half), min(high, mean + half)))


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
    differences = {seed: ours[seed] - others[seed] for seed in sorted(ours) if seed in others}
    found = summary(list(differences.values()))
    if found is None:
        return None
    if found.std is None:
        return Comparison(differences, found.mean, None, None, None)
    if found.std <= ROUNDING * max(map(abs, differences.values())):
        p = 1.0 if found.mean == 0 else 0.0
    else:
        statistic = found.mean / (found.std / math.sqrt(len(differences)))
        p = float(2 * stdtr(len(differences) - 1, -abs(statistic)))
    return Comparison(differences, found.mean, found.std, found.interval, p)


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
