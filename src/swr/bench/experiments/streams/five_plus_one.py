"""5+1 classes: hard tasks of five new classes and easy tasks of one take turns; a class is never shown again.

30 tasks of about 780 steps of 32, which is 10 epochs of a hard task and 50 of an easy one, as in L2 Init (Kumar, Marklund,
Van Roy, 2023). The metric is that of the hard tasks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from swr.bench.data import Split
from swr.bench.experiments.seeds import generator
from swr.bench.experiments.streams.stream import Size, Stream, of_classes
from swr.bench.experiments.task import Task
from swr.errors import OptionError

if TYPE_CHECKING:
    from swr.bench.experiments.config import RunConfig

HARD, EASY = 5, 1
"""classes of the two kinds of tasks"""


class FivePlusOne(Stream):
    """New classes in every task."""

    name = "five-plus-one"
    title = "5+1 classes"
    about = "five new classes, then one, then five others: accuracy on the tasks of five"
    sizes: Mapping[str, Size] = {"cifar100-cnn": Size(30, (10, 50), batch_size=32)}
    draws = False

    def counts(self, stage: int) -> bool:
        """The hard tasks do."""
        return stage % 2 == 0

    def examples(self, run: RunConfig, train: Split, classes: int) -> list[Tensor]:
        """All images of a task's classes."""
        return [of_classes(train.labels, self._classes(run, task, classes)) for task in range(len(run.epochs))]

    def task(self, run: RunConfig, stage: int, train: Split, test: Split, classes: int) -> Task:
        """Tested on the task's classes."""
        return Task(tested=of_classes(test.labels, self._classes(run, stage, classes)))

    def _classes(self, run: RunConfig, task: int, classes: int) -> Tensor:
        ends = [0]
        for one in range(len(run.epochs)):
            ends.append(ends[-1] + (HARD if self.counts(one) else EASY))
        if classes < ends[-1]:
            raise OptionError(
                f"{len(run.epochs)} tasks of {self.name} need {ends[-1]} classes, and there are {classes}: use cifar100."
            )
        return torch.randperm(classes, generator=generator(run.seed, f"{self.name} classes"))[ends[task] : ends[task + 1]]
