"""Permuted pixels: every task shows the same images, their pixels in a new order.

500 tasks of 10,000 images of MNIST, as in L2 Init (S. Kumar, H. Marklund, B. Van Roy, 2023, "Maintaining Plasticity in
Continual Learning via Regenerative Regularization"). On digits the learning rate is 3e-3, so that 200 tasks are enough to lose
plasticity.
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


class PermutedPixels(Stream):
    """A new order of the pixels in every task."""

    name = "permuted-pixels"
    about = "one pass over the images a task, their pixels in a new order each time"
    sizes: Mapping[str, Size] = {"mnist-mlp": Size(500, examples=10_000), "digits-mlp": Size(200, lr=3e-3)}
    hyper: Mapping[str, Mapping[str, Hyper]] = {"digits-mlp": tuned(shrink_perturb=0.4, l2=1e-3, l2_init=1e-3, swr=1e-2)}
    always_tests = True

    def task(self, run: RunConfig, stage: int, train: Split, test: Split, classes: int) -> Task:
        """The same order for both splits."""
        _, _, height, width = train.images.shape
        order = torch.randperm(height * width, generator=generator(run.seed, f"{self.name} {stage}"))
        return Task(View(pixels=order), View(pixels=order), torch.arange(len(test)))
