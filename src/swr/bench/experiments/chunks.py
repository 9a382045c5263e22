"""The scenarios of a few long stages: everything, or chunks of the training data.

With n training examples in a random order of the seed and K stages,

    single              one stage with all of them
    continued           K stages, each with all of them
    warm-start          the first n/2, then all
    continual-full      K chunks; stage k sees chunks 1 … k
    continual-limited   K chunks; stage k sees chunk k only

Chunks differ by at most one example.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from swr.bench.data import Split
from swr.bench.experiments.scenario import Scenario
from swr.bench.experiments.seeds import generator
from swr.errors import OptionError

if TYPE_CHECKING:
    from swr.bench.experiments.config import RunConfig


class Continued(Scenario):
    """All the data in every stage."""

    name = "continued"

    def examples(self, run: RunConfig, train: Split, classes: int) -> list[Tensor]:
        """Everything."""
        return [torch.arange(len(train)) for _ in run.epochs]


class Single(Continued):
    """One stage with all the data."""

    name = "single"
    many = False
    reference = None


class ContinualFull(Scenario):
    """Chunks that add up."""

    name = "continual-full"
    data = "grows"

    def examples(self, run: RunConfig, train: Split, classes: int) -> list[Tensor]:
        """The chunks up to each stage."""
        found = chunks(run, train)
        return [torch.cat(found[: stage + 1]).sort().values for stage in range(len(found))]


class WarmStart(ContinualFull):
    """Two chunks that add up: half of the data, then all of it."""

    name = "warm-start"


class ContinualLimited(Scenario):
    """Chunks that replace each other."""

    name = "continual-limited"
    data = "replaced"

    def examples(self, run: RunConfig, train: Split, classes: int) -> list[Tensor]:
        """A chunk for each stage."""
        return [chunk.sort().values for chunk in chunks(run, train)]


def chunks(run: RunConfig, train: Split) -> tuple[Tensor, ...]:
    """The training examples in a random order, one part for each stage."""
    if len(train) < len(run.epochs):
        raise OptionError(f"{len(train)} training examples cannot be divided among {len(run.epochs)} stages.")
    return torch.tensor_split(torch.randperm(len(train), generator=generator(run.seed, "chunks")), len(run.epochs))


SINGLE, CONTINUED = Single(), Continued()
WARM_START, CONTINUAL_FULL, CONTINUAL_LIMITED = WarmStart(), ContinualFull(), ContinualLimited()
