"""What a scenario is: which data each stage of a run shows, and what the run is judged by.

A scenario is one object. Everything that depends on it asks this object: the configuration whether it is possible, the loop
what to show, the estimate how much data a stage has, the report what the numbers mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from torch import Tensor

from swr.bench.data import Split
from swr.bench.experiments.metrics import TEST, Metric
from swr.bench.experiments.task import Task
from swr.errors import OptionError

if TYPE_CHECKING:
    from swr.bench.experiments.config import RunConfig


class Scenario:
    """Which data each stage shows. A new scenario is a subclass and one entry in a list."""

    name: str
    """as configurations and commands write it"""
    data: Literal["same", "grows", "replaced"] = "same"
    """how the training data of a stage relates to that of the stage before"""
    metric: Metric = TEST
    """what its runs are judged by"""
    many: bool = True
    """several stages; otherwise exactly one"""
    regression: bool = False
    """squared error instead of cross-entropy"""
    always_tests: bool = True
    """whether every stage has test examples; where one has none, its test accuracy is not-a-number"""
    reference: Literal["cold", "full-reset"] | None = "cold"
    """the line that others are measured against: only the last stage, from scratch; or a new network for every stage"""
    holds_out: bool = True
    """whether a part of the training data can be held out to select on"""
    draws: bool = False
    """whether a run's ``examples`` are drawn by the scenario; otherwise they are the first ones of the training split"""
    generates: bool = False
    """whether it generates its data, so that only columns made for it can be used"""

    interactive: bool = False
    """whether an agent makes its data by acting in an environment"""

    def check(self, run: RunConfig) -> None:
        """Raise an OptionError for a configuration that this scenario does not have."""
        if (len(run.epochs) > 1) != self.many:
            raise OptionError(f"the scenario {self.name} does not fit {len(run.epochs)} stages of epochs.")

    def examples(self, run: RunConfig, train: Split, classes: int) -> list[Tensor]:
        """The training examples of each stage, as sorted int64 indices.

        Args:
            run: The configuration; it has as many stages as entries in ``run.epochs``.
            train: The training split.
            classes: How many the dataset has.
        """
        raise NotImplementedError

    def task(self, run: RunConfig, stage: int, train: Split, test: Split, classes: int) -> Task:
        """What a stage shows, by default the data unchanged.

        Args:
            run: The configuration; everything random comes from ``run.seed``.
            stage: From 0.
            train: The training split.
            test: The test split.
            classes: How many the dataset has.
        """
        return Task()

    def counts(self, stage: int) -> bool:
        """Whether a stage counts in the metric."""
        return True

    def share(self, run: RunConfig, stage: int) -> float:
        """The part of the training data that a stage sees."""
        match self.data:
            case "same":
                return 1.0
            case "grows":
                return 1.0 if run.cold else (stage + 1) / len(run.epochs)
            case "replaced":
                return 1 / len(run.epochs)
