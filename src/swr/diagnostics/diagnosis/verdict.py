"""How far the trained network stays behind fresh ones, and what that means.

For each pair s, a copy of the trained network and a fresh network see the same task in the same order:

    gap_s = L_s(trained) − L_s(fresh),     L the mean loss of the last tenth of the steps
    missing = mean gap / (L_0 − mean L(fresh)),     L_0 the loss at which fresh networks start

so ``missing`` is the share of a fresh network's progress that the trained one does not make: 0 is level, 1 has learned nothing.
A network can also end level and arrive late. So the steps are counted until 90 % of the fresh network's progress is made.

The trained network is one draw, and a fresh network can be behind the mean of others by the luck of its initialisation. So it
counts as behind only if it is further behind than 97.5 % of fresh networks would be: mean gap > t s √(1 + 1/n), the prediction
interval for one more fresh network, where s is the standard deviation of the fresh networks' results.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from swr.diagnostics.diagnosis.intervals import Interval, interval
from swr.diagnostics.diagnosis.trial import Curve

Verdict = Literal["none", "some", "lost", "unclear"]

MARGIN = 0.1
"""a smaller share of a fresh network's progress is not worth mentioning"""
HALF = 0.5
"""from this share on, plasticity is lost, not only reduced"""
SLOW = 1.5
"""as many times the steps of a fresh network are worth mentioning"""
REACHED = 0.9
"""the share of a fresh network's progress up to which steps are counted"""


@dataclass(frozen=True)
class AtRate:
    """The results at one learning rate.

    Attributes:
        lr: the learning rate.
        trained: the mean result of the trained network's copies.
        fresh: the mean result of the fresh networks.
    """

    lr: float
    trained: float
    fresh: float


@dataclass(frozen=True)
class Comparison:
    """The trained network against fresh ones, each at the better of its learning rates.

    Attributes:
        rates: the results at every learning rate.
        lr_trained: the learning rate at which the trained network ended with the lowest loss.
        lr_fresh: the same for the fresh networks.
        trained: the trained network's curves, one per pair.
        fresh: the fresh networks' curves.
        gap: the paired difference of their results, positive when the trained network is behind.
        luck: how far one in forty fresh networks is behind the mean of others.
        start: L_0.
        progress: the fresh networks' own progress L_0 − L.
        slowdown: the logarithm of the ratio of steps until 90 % of the fresh network's progress.
        arrived: whether every copy of the trained network got there; otherwise the ratio is at least that.
    """

    rates: tuple[AtRate, ...]
    lr_trained: float
    lr_fresh: float
    trained: tuple[Curve, ...]
    fresh: tuple[Curve, ...]
    gap: Interval
    luck: float
    start: float
    progress: Interval
    slowdown: Interval
    arrived: bool

    @property
    def missing(self) -> Interval:
        """The gap as a share of the fresh networks' progress."""
        return Interval(self.gap.mean / self.progress.mean, self.gap.half / self.progress.mean, self.gap.n)

    @property
    def learned(self) -> bool:
        """Whether the fresh networks learned anything; otherwise nothing can be said."""
        return math.isfinite(self.progress.mean) and self.progress.low > 0

    @property
    def late(self) -> bool:
        """Whether the trained network needs noticeably more steps."""
        return self.slowdown.mean >= math.log(SLOW) and self.slowdown.low > 0

    @property
    def behind(self) -> bool:
        """Whether the gap is larger than the luck of a fresh network explains, and the pairs agree on it or on a delay."""
        return self.gap.mean > self.luck and (self.gap.low > 0 or self.late)

    @property
    def verdict(self) -> Verdict:
        """What was lost.

        none: the interval of the missing share ends below a tenth.
        some: the trained network is behind, by more than that; or level in the end, but late.
        lost: it misses half or more.
        unclear: a fresh network could be as far behind by luck, or fresh networks did not learn either.
        """
        if not self.learned:
            return "unclear"
        if self.missing.high < MARGIN:
            return "some" if self.late else "none"
        if not self.behind:
            return "unclear"
        return "lost" if self.missing.mean >= HALF else "some"


def compare(trained: Mapping[float, Sequence[Curve]], fresh: Mapping[float, Sequence[Curve]]) -> Comparison:
    """Compare the curves of both, by learning rate; the curves of a pair have the same place in their lists."""
    rates = tuple(AtRate(lr, _mean(trained[lr]), _mean(fresh[lr])) for lr in trained)
    lr_trained = min(rates, key=lambda at: at.trained).lr
    lr_fresh = min(rates, key=lambda at: at.fresh).lr
    ours, theirs = tuple(trained[lr_trained]), tuple(fresh[lr_fresh])
    start = fmean(curve.losses[0] for curve in theirs)
    arrivals = [_arrivals(a, b, start) for a, b in zip(ours, theirs, strict=True)]
    return Comparison(
        rates,
        lr_trained,
        lr_fresh,
        ours,
        theirs,
        interval([a.result - b.result if math.isfinite(b.result) else math.inf for a, b in zip(ours, theirs, strict=True)]),
        interval([b.result for b in theirs]).half * math.sqrt(len(theirs) + 1),  # t s / √n · √(n + 1) = t s √(1 + 1/n)
        start,
        interval([start - curve.result for curve in theirs]),
        interval([math.log(a / b) for a, b, _ in arrivals]),
        all(there for *_, there in arrivals),
    )


def _mean(curves: Sequence[Curve]) -> float:
    return fmean(curve.result for curve in curves)


def _arrivals(trained: Curve, fresh: Curve, start: float) -> tuple[int, int, bool]:
    """After how many steps each has made 90 % of the fresh network's progress, and whether the trained one has at all."""
    level = start - REACHED * (start - fresh.result)
    ours, theirs = _arrival(trained, level), _arrival(fresh, level)
    steps = len(fresh.losses)
    return ours or steps, theirs or steps, ours is not None


def _arrival(curve: Curve, level: float) -> int | None:
    window = max(1, len(curve.losses) // 20)
    for step in range(window, len(curve.losses) + 1):
        if fmean(curve.losses[step - window : step]) <= level:
            return step
    return None
