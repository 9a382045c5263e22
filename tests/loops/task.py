"""The task that every loop trains: a network, its batches, and how its weights are told apart from another loop's."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import swr
from nets import confirmed, make, mlp

STEPS, STOP, BATCH = 8, 5, 8
LR = 0.05
AIMS = {"coefficient": {"coefficient": 0.05}, "growth": {"growth": 1.1}}
"""what the rescalers of a loop aim at, by the value of LOOP_AIM, which ranks in other processes see too"""


@dataclass
class Outcome:
    """What a loop ends with."""

    weights: dict[str, Tensor]
    rescales: int
    steps: int
    """of the optimizer, the skipped ones not counted"""


@dataclass
class Span:
    """Which steps of the run to train: from a checkpoint if ``resume``, to a checkpoint if ``save``."""

    first: int = 0
    last: int = STEPS
    resume: Path | None = None
    save: Path | None = None

    def __iter__(self):
        return iter(range(self.first, self.last))


def network() -> nn.Module:
    return make(mlp, dtype=torch.float32)


def rescaler_of(model: nn.Module, **options: Any) -> swr.SoftWeightRescaling:
    """Built on the plain model; its weights are then grown, so that there is something to pull."""
    aim = AIMS[os.environ.get("LOOP_AIM", "coefficient")]
    rescaler = confirmed(swr.SoftWeightRescaling(model, batch(0)[0], **aim, **options))
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(1.5)
    return rescaler


def optimizer_of(model: nn.Module, **options: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9, **options)


def batch(step: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1000 + step)
    return torch.randn(BATCH, 12, generator=generator), torch.randint(4, (BATCH,), generator=generator)


def part(step: int, index: int, parts: int) -> tuple[Tensor, Tensor]:
    """One of equal parts of a batch."""
    x, y = batch(step)
    return x.chunk(parts)[index], y.chunk(parts)[index]


loss_of = nn.functional.cross_entropy


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def rescales_of(rescaler: swr.SoftWeightRescaling) -> int:
    return sum(part["steps"] for part in rescaler.state_dict()["optimizers"])


def save(path: Path | None, **objects: Any) -> None:
    if path is not None:
        torch.save({name: thing.state_dict() for name, thing in objects.items()}, path)


def load(path: Path | None, **objects: Any) -> None:
    if path is not None:
        state = torch.load(path, weights_only=True)
        for name, thing in objects.items():
            thing.load_state_dict(state[name])
