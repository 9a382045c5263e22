"""Class-incremental learning: every task adds classes to those there are; outputs of classes yet to come are ignored.

20 stages of 5 classes of S. Dohare et al., 2024, "Loss of plasticity in deep continual learning", here with 100 epochs a
stage, no augmentation and a constant learning rate, as in FIRE.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from swr.bench.data import Split
from swr.bench.experiments.metrics import TEST
from swr.bench.experiments.seeds import generator
from swr.bench.experiments.streams.stream import Size, Stream, of_classes
from swr.bench.experiments.task import Task, View
from swr.errors import OptionError

if TYPE_CHECKING:
    from swr.bench.experiments.config import RunConfig


class ClassIncremental(Stream):
    """More classes in every stage."""

    name = "class-incremental"
    about = "more classes at each stage, all their images kept: test accuracy on the classes so far"
    sizes: Mapping[str, Size] = {"cifar100-cnn": Size(20, (100,), batch_size=256), "digits-mlp": Size(5, (20,), batch_size=32)}
    data = "grows"
    draws = False
    metric = TEST

    def examples(self, run: RunConfig, train: Split, classes: int) -> list[Tensor]:
        """All images of the classes so far."""
        return [of_classes(train.labels, self._classes(run, stage, classes)) for stage in range(len(run.epochs))]

    def task(self, run: RunConfig, stage: int, train: Split, test: Split, classes: int) -> Task:
        """Tested on the classes so far; the outputs of the others are hidden."""
        seen = self._classes(run, stage, classes)
        view = View(hidden=torch.tensor([c for c in range(classes) if c not in set(seen.tolist())], dtype=torch.long))
        return Task(view, view, of_classes(test.labels, seen))

    def _classes(self, run: RunConfig, stage: int, classes: int) -> Tensor:
        if classes < len(run.epochs):
            raise OptionError(f"{classes} classes cannot be added in {len(run.epochs)} stages: each needs one more.")
        order = torch.randperm(classes, generator=generator(run.seed, f"{self.name} classes"))
        return torch.cat(torch.tensor_split(order, len(run.epochs))[: stage + 1])
