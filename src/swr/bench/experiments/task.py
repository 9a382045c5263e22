"""What a stage shows of the data: in which order of pixels, under which labels, with which outputs.

Everything is a function of the run's seed, the stage's number and the data: runs of one seed see the same stream whatever their
method, and a run that continues after an interruption computes its task again instead of storing it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor


class Batches(Protocol):
    """A source of batches by index, such as :class:`~swr.bench.training.feed.Feed`."""

    def batch(self, index: Tensor, *, reuse: bool = False) -> tuple[Tensor, Tensor]:
        """Inputs and labels at these indices."""


@dataclass(frozen=True, eq=False)
class View:
    """How a task shows a split; without arguments, unchanged."""

    pixels: Tensor | None = None
    """the order of the pixels of an image, the same in every channel"""
    labels: Tensor | None = None
    """of all examples, instead of the split's"""
    inputs: Tensor | None = None
    """of all examples, instead of the split's"""
    hidden: Tensor | None = None
    """classes whose outputs are ignored"""

    def batch(self, feed: Batches, index: Tensor, *, reuse: bool = False) -> tuple[Tensor, Tensor]:
        """Inputs and labels at these indices; ``reuse`` as in :meth:`~swr.bench.training.feed.Feed.batch`."""
        if self.inputs is not None and self.labels is not None:
            return self.inputs.index_select(0, index), self.labels.index_select(0, index)
        inputs, labels = feed.batch(index, reuse=reuse)
        if self.pixels is not None:
            inputs = inputs.flatten(2).index_select(2, self.pixels).view(inputs.shape)
        return inputs, labels if self.labels is None else self.labels.index_select(0, index)

    def outputs(self, outputs: Tensor) -> Tensor:
        """The outputs, those of hidden classes at -∞."""
        return outputs if self.hidden is None else outputs.index_fill(1, self.hidden, -torch.inf)

    def to(self, device: torch.device) -> View:
        """The same on a device."""
        return View(*(None if tensor is None else tensor.to(device) for tensor in vars(self).values()))


@dataclass(frozen=True, eq=False)
class Task:
    """What a run sees during one stage; without arguments, the data unchanged."""

    train: View = field(default_factory=View)
    test: View = field(default_factory=View)
    tested: Tensor | None = None
    """the test examples that belong to the task, maybe none; None: the whole test split, unchanged"""

    def to(self, device: torch.device) -> Task:
        """The same on a device."""
        return Task(self.train.to(device), self.test.to(device), None if self.tested is None else self.tested.to(device))
