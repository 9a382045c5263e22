"""Label permutation: every task renames the classes.

400 tasks of 2,500 images, as in UPGD (M. Elsayed, A. R. Mahmood, 2024), in batches of 16 instead of single images.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from swr.bench.data import Split
from swr.bench.experiments.column import Hyper, tuned
from swr.bench.experiments.seeds import generator
from swr.bench.experiments.streams.stream import Size, Stream
from swr.bench.experiments.task import Task, View

if TYPE_CHECKING:
    from swr.bench.experiments.config import RunConfig


class LabelPermutation(Stream):
    """New names of the classes in every task, on other images where there are enough."""

    name = "label-permutation"
    about = "one pass over new images a task, the classes renamed each time"
    sizes: Mapping[str, Size] = {"cifar10-cnn": Size(400, examples=2_500), "digits-mlp": Size(200)}
    hyper: Mapping[str, Mapping[str, Hyper]] = {"digits-mlp": tuned(shrink_perturb=0.4, l2=1e-3, l2_init=1e-3, swr=1e-3)}
    always_tests = True

    def examples(self, run: RunConfig, train: Split, classes: int) -> list[Tensor]:
        """Drawn again for every task, if they are not all."""
        return [self.draw(run, train, task) for task in range(len(run.epochs))]

    def task(self, run: RunConfig, stage: int, train: Split, test: Split, classes: int) -> Task:
        """The same names for both splits."""
        names = torch.randperm(classes, generator=generator(run.seed, f"{self.name} {stage}"))
        return Task(View(labels=names[train.labels]), View(labels=names[test.labels]), torch.arange(len(test)))
