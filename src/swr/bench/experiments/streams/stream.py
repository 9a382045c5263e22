"""What a stream is: many short tasks in a row, how long each is, and how they differ.

The average online accuracy is the accuracy on every batch before its update, averaged over a task's steps, then over the
tasks. Sizes on digits are ours: one method and seed take less than a minute on one core.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from swr.bench.data import Split
from swr.bench.experiments.column import Column
from swr.bench.experiments.experiment import Experiment
from swr.bench.experiments.metrics import ACCURACY
from swr.bench.experiments.scenario import Scenario
from swr.bench.experiments.seeds import generator
from swr.errors import OptionError

if TYPE_CHECKING:
    from swr.bench.experiments.config import RunConfig

METHODS = ("vanilla", "full-reset", "l2", "l2-init", "shrink-perturb", "redo", "continual-backprop", "swr")
"""the rows of a stream's table; the full reset is a new network for every task, what the others are measured against"""


@dataclass(frozen=True)
class Size:
    """How long a stream is, and how it is trained."""

    tasks: int
    epochs: tuple[int, ...] = (1,)
    """of a task; if there are several, tasks take turns"""
    batch_size: int = 16
    examples: int | None = None
    """of a task; None: all that there are"""
    lr: float = 1e-3

    def stages(self, scale: float = 1.0) -> tuple[int, ...]:
        """The epochs of each task.

        >>> Size(4).stages(0.5), Size(4, (10, 50)).stages(0.1)
        ((1, 1), (1, 5, 1, 5))

        Args:
            scale: Multiplies the number of tasks of one epoch (at least two are left), or the epochs of longer tasks.
        """
        if max(self.epochs) == 1:
            return (1,) * max(2, round(self.tasks * scale))
        turns = [max(1, round(n * scale)) for n in self.epochs]
        return tuple(turns[task % len(turns)] for task in range(self.tasks))


class Stream(Experiment, Scenario):
    """A scenario of many short tasks, which is also an experiment.

    A new stream is a subclass in one file, and one entry in the list in ``streams/__init__.py``.
    """

    sizes: Mapping[str, Size]
    """by column; the first is what it is run on by default, and its size that of columns without one of their own"""

    methods: tuple[str, ...] = METHODS
    data = "replaced"
    metric = ACCURACY
    always_tests = False
    reference = "full-reset"
    holds_out = False
    draws = True

    def __init__(self) -> None:
        self.scenario = self
        self.columns = tuple(self.sizes)[:1]

    def schedule(self, column: Column, scale: float = 1.0) -> dict[str, Any]:
        """Scales the number of tasks of one epoch, or the epochs of longer tasks."""
        size = self.sizes.get(column.name, next(iter(self.sizes.values())))
        return {
            "scenario": self.name,
            "epochs": size.stages(scale),
            "batch_size": size.batch_size,
            "clip": column.clip,
            "lr": size.lr,
            "examples": size.examples,
        }

    def check(self, run: RunConfig) -> None:
        """Several tasks, and nothing that only a few long stages have."""
        if len(run.epochs) < 2:
            raise OptionError(f"the scenario {self.name} does not fit {len(run.epochs)} stages of epochs.")
        if run.cold or run.label_noise or run.validation:
            raise OptionError(f"a stream must be without a cold start, label noise or held-out data, found {self.name!r}.")

    def examples(self, run: RunConfig, train: Split, classes: int) -> list[Tensor]:
        """By default the same examples in every task."""
        return [self.draw(run, train)] * len(run.epochs)

    def share(self, run: RunConfig, stage: int) -> float:
        """Of a task's examples; the tasks are alike."""
        return (stage + 1) / len(run.epochs) if self.data == "grows" else 1.0

    def draw(self, run: RunConfig, train: Split, task: int | None = None) -> Tensor:
        """As many examples as a task has, drawn without replacement, sorted.

        Args:
            task: A task that has its own; None for examples that all tasks share.
        """
        if run.examples is None:
            return torch.arange(len(train))
        if run.examples > len(train):
            raise OptionError(f"{self.name} needs {run.examples} examples a task, and there are only {len(train)}.")
        purpose = f"{self.name} examples" if task is None else f"{self.name} examples {task}"
        return torch.randperm(len(train), generator=generator(run.seed, purpose))[: run.examples].sort().values


def of_classes(labels: Tensor, classes: Tensor) -> Tensor:
    """The indices of the examples of some classes."""
    return torch.isin(labels, classes).nonzero().flatten()
