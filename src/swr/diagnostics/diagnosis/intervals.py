"""A mean over pairs and its 95 % interval, without SciPy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

T_975 = (
    *(12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281),
    *(2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860),
    *(2.0796, 2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423),
)
"""the 97.5 % points of Student's distribution with 1 … 30 degrees of freedom"""


@dataclass(frozen=True)
class Interval:
    """x̄ ± t(n − 1) s / √n, the 95 % interval of a mean; one value alone has an infinite one.

    Attributes:
        mean: x̄.
        half: half of its width.
        n: the number of values.
    """

    mean: float
    half: float
    n: int

    @property
    def low(self) -> float:
        """The lower end."""
        return self.mean - self.half

    @property
    def high(self) -> float:
        """The upper end."""
        return self.mean + self.half


def interval(values: Sequence[float]) -> Interval:
    """The mean of some values with its interval.

    >>> found = interval([1.0, 2.0, 3.0])
    >>> round(found.mean, 3), round(found.half, 3), found.n
    (2.0, 2.484, 3)

    Args:
        values: at least one; if one is infinite, so is the mean, with an interval of width 0.
    """
    n = len(values)
    if not all(map(math.isfinite, values)):
        return Interval(math.inf, 0.0, n)
    if n == 1:
        return Interval(values[0], math.inf, 1)
    return Interval(fmean(values), t_975(n - 1) * stdev(values) / math.sqrt(n), n)


def t_975(freedom: int) -> float:
    """The 97.5 % point of Student's distribution; above 30 degrees of freedom within 1e-4, by two terms of its expansion.

    >>> t_975(4), round(t_975(60), 3)
    (2.7764, 2.0)
    """
    if freedom <= len(T_975):
        return T_975[freedom - 1]
    z = 1.959964
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
