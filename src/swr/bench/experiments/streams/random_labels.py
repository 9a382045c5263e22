"""Random labels: every task shuffles the labels of the same few images, to be memorised.

50 tasks of 400 epochs on 1,200 images, as in L2 Init (Kumar, Marklund, Van Roy, 2023).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch

from swr.bench.data import Split
from swr.bench.experiments.column import Hyper, tuned
from swr.bench.experiments.seeds import generator
from swr.bench.experiments.streams.stream import Size, Stream
from swr.bench.experiments.task import Task, View

if TYPE_CHECKING:
    from swr.bench.experiments.config import RunConfig


class RandomLabels(Stream):
    """The labels of the same images, shuffled in every task; there is nothing to test."""

    name = "random-labels"
    about = "a few images to memorise, their labels shuffled again at each task"
    sizes: Mapping[str, Size] = {
        "mnist-mlp": Size(50, (400,), examples=1_200),
        "cifar10-mlp": Size(50, (400,), examples=1_200),
        "digits-mlp": Size(30, (20,), examples=320),
    }
    hyper: Mapping[str, Mapping[str, Hyper]] = {"digits-mlp": tuned(shrink_perturb=0.4, l2=1e-3, l2_init=1e-3, swr=1e-3)}

    def task(self, run: RunConfig, stage: int, train: Split, test: Split, classes: int) -> Task:
        """Labels of the chosen images, permuted among them."""
        chosen, labels = self.draw(run, train), train.labels.clone()
        order = torch.randperm(len(chosen), generator=generator(run.seed, f"{self.name} {stage}"))
        labels[chosen] = train.labels[chosen[order]]
        return Task(View(labels=labels), View(), torch.arange(0))
