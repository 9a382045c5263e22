"""Bit flipping, a slowly changing regression problem.

An input has 20 bits. The first 15 are slow: they stay for a whole task, and one of them flips when the next begins. The other 5
are drawn for each example. A learner of 5 hidden units cannot fit the target everywhere and has to follow the slow bits.

300 tasks of 10,000 examples of S. Dohare et al., 2024, "Loss of plasticity in deep continual learning", here in batches of 16.
The published text flips one bit; its code does so under ``flip_one`` and otherwise draws all slow bits again. Here one flips.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from swr.bench.data import Split
from swr.bench.data.readers.bits import WIDTH
from swr.bench.experiments.metrics import ERROR
from swr.bench.experiments.seeds import generator
from swr.bench.experiments.streams.stream import Size, Stream
from swr.bench.experiments.task import Task, View

if TYPE_CHECKING:
    from swr.bench.experiments.config import RunConfig

SLOW = 15
"""bits that stay for a task"""
UNITS = 100
"""of the target network"""
SHARE = 0.7
"""β: about the part of its inputs that must agree with a unit's weights for it to be on"""
EXAMPLES = 10_000
"""of a task, if a run does not say"""


class BitFlipping(Stream):
    """Regression on generated bits; there is nothing to test."""

    name = "bit-flipping"
    title = "Slowly changing regression (bit flipping)"
    about = "regression on 20 bits, one of the 15 slow ones flips at each task"
    sizes: Mapping[str, Size] = {"bits-mlp5": Size(300, examples=EXAMPLES)}
    metric = ERROR
    regression = True
    generates = True

    def examples(self, run: RunConfig, train: Split, classes: int) -> list[Tensor]:
        """As many as are generated."""
        return [torch.arange(run.examples or EXAMPLES)] * len(run.epochs)

    def task(self, run: RunConfig, stage: int, train: Split, test: Split, classes: int) -> Task:
        """The bits of a task and their targets."""
        bits = inputs(run.seed, stage, run.examples or EXAMPLES)
        targets = target(run.seed)(bits)
        return Task(View(inputs=bits.view(-1, 1, 1, WIDTH), labels=targets), View(), torch.arange(0))


@dataclass(frozen=True, eq=False)
class Target:
    """A fixed network of threshold units.

        y(x) = v_0 + Σ_i v_i [w_i · (x, 1) > θ_i],   θ_i = β (m + 1) - S_i

    with all weights ±1, m bits and S_i the number of negative weights of unit i. (The authors' code counts the weight of the
    constant input with the opposite sign.)
    """

    hidden: Tensor
    """w: ±1, [units, bits + 1]; the last is that of the constant input"""
    output: Tensor
    """v: ±1, [units + 1]; the last is v_0"""

    def __call__(self, inputs: Tensor) -> Tensor:
        """[examples, bits] -> [examples, 1]."""
        negative = (self.hidden < 0).sum(1)
        threshold = SHARE * self.hidden.shape[1] - negative
        on = inputs @ self.hidden[:, :-1].T + self.hidden[:, -1] > threshold
        return (on.float() @ self.output[:-1] + self.output[-1]).unsqueeze(1)


def target(seed: int) -> Target:
    """The network of a seed."""
    source = generator(seed, "bit-flipping target")
    hidden = torch.randint(2, (UNITS, WIDTH + 1), generator=source) * 2.0 - 1
    return Target(hidden, torch.randint(2, (UNITS + 1,), generator=source) * 2.0 - 1)


def slow(seed: int, task: int) -> Tensor:
    """The slow bits of a task: those of the one before with one flipped.

    >>> int((slow(0, 8) != slow(0, 7)).sum())
    1
    """
    bits = torch.randint(2, (SLOW,), generator=generator(seed, "bit-flipping start")).float()
    for number in range(1, task + 1):
        place = torch.randint(SLOW, (1,), generator=generator(seed, f"bit-flipping flip {number}"))
        bits[place] = 1 - bits[place]
    return bits


def inputs(seed: int, task: int, examples: int) -> Tensor:
    """The inputs of a task, [examples, bits]."""
    fast = torch.randint(2, (examples, WIDTH - SLOW), generator=generator(seed, f"bit-flipping inputs {task}")).float()
    return torch.cat([slow(seed, task).expand(examples, -1), fast], dim=1)
