"""A place where methods are compared fairly: tuned on some seeds, then reported once on others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from swr.bench.experiments.columns import find_column
from swr.bench.experiments.config import RunConfig
from swr.bench.experiments.expansion import VALIDATION, configure
from swr.bench.experiments.paper import find_experiment

Point = tuple[tuple[str, float], ...]
"""hyper-parameters by keyword, as a configuration holds them: sorted"""


@dataclass(frozen=True)
class Setting:
    """An experiment on a column, at a size that can be afforded, and the seeds of both parts.

    >>> one = Setting("warm-start", "warm start", "warm-start", "mnist-mlp", scale=0.5, examples=6000)
    >>> one.config("l2", (("coefficient", 0.01),), seed=100, tune=True).validation
    0.1
    """

    name: str
    title: str
    experiment: str
    column: str
    scale: float = 1.0
    """of the number of epochs, or of tasks"""
    examples: int | None = None
    """of the training data; None: the experiment's own number"""
    tuning: Sequence[int] = (100,)
    """seeds on which hyper-parameters are chosen"""
    reported: Sequence[int] = tuple(range(200, 205))
    """seeds that are looked at once"""

    def config(self, line: str, hyper: Point, seed: int, *, tune: bool = False) -> RunConfig:
        """One run.

        Args:
            line: The name of a method, or ``cold``.
            tune: Hold out a tenth of the training data to choose on; a stream holds nothing out.
        """
        plan = find_experiment(self.experiment)
        held_out = VALIDATION if tune and plan.scenario.holds_out else 0.0
        made = configure(plan, find_column(self.column), line, dict(hyper), seed, self.scale, validation=held_out)
        return made if self.examples is None else replace(made, examples=self.examples)

    def grid(self, line: str, points: Sequence[Point]) -> list[RunConfig]:
        """Every configuration on the tuning seeds."""
        return [self.config(line, point, seed, tune=True) for seed in self.tuning for point in points]
