"""Control with changing sensors: the same cart and pole, observed in other channels in every task.

The four numbers that an agent sees of CartPole (position, velocity, angle, angular velocity) come in another order, each with
another sign and another scale, every N steps of the environments; what the agent has to do stays the same. A task begins
everything again but the networks and their optimizers: environments, replay memory, exploration. What an agent of a later task
lacks against a fresh one is therefore the plasticity of its networks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from swr.bench.data.readers.cartpole import CHANNELS
from swr.bench.experiments.column import Hyper
from swr.bench.experiments.metrics import RETURN
from swr.bench.experiments.seeds import generator
from swr.bench.experiments.streams.stream import Size, Stream
from swr.errors import OptionError

if TYPE_CHECKING:
    from swr.bench.experiments.config import RunConfig

SCALES = (1.0, 1.0, 0.1, 1.0)
"""about how large the four numbers are"""
SPREAD = 3.0
"""a channel is multiplied by up to this, or divided"""
LEAST = 1024
"""steps of the environments that a task needs at least"""
DQN = Size(8, batch_size=64, examples=6_400, lr=1e-2)
PPO = Size(8, batch_size=512, examples=8_192, lr=3e-3)
"""chosen with vanilla and the fresh agent alone, so that a loss of plasticity shows within some seconds of one core"""

TUNED: dict[str, dict[str, Hyper]] = {
    "cartpole-dqn": {
        "l2-init": {"coefficient": 1e-3},
        "shrink-perturb": {"coefficient": 0.6},
        "redo": {"threshold": 0.025, "every": 100.0},
    },
    "cartpole-ppo": {
        "l2-init": {"coefficient": 1e-2},
        "shrink-perturb": {"coefficient": 0.6},
        "redo": {"threshold": 0.025, "every": 100.0},
    },
}
"""the better of two values on a seed of its own; the budget of SWR is its default"""


class ChangingChannels(Stream):
    """An agent in CartPole, whose observation channels are permuted, flipped and scaled at every task."""

    name = "changing-channels"
    title = "Control with changing sensors (CartPole)"
    about = (
        "an agent learns to balance a pole, and its four observation channels are permuted, flipped and scaled at each task; "
        "its return is that of a task's episodes while it learns, divided by the largest, 500"
    )
    sizes: Mapping[str, Size] = {
        "cartpole-dqn": DQN,
        "cartpole-ppo": PPO,
        "cartpole-dqnln": DQN,
        "cartpole-ppoln": PPO,
    }
    methods: tuple[str, ...] = ("vanilla", "full-reset", "l2-init", "shrink-perturb", "redo", "swr-budget")
    hyper: Mapping[str, Mapping[str, Hyper]] = TUNED
    metric = RETURN
    generates = True
    interactive = True

    def check(self, run: RunConfig) -> None:
        """Enough steps, at a constant learning rate."""
        super().check(run)
        if run.examples is None or run.examples < LEAST:
            raise OptionError(
                f"{self.name} counts the steps of the environments as examples and needs at least {LEAST:,} in a task, "
                f"found {run.examples}: give --examples."
            )
        if run.lr_schedule != "step" or run.lr_drops or run.inputs != "normalised":
            raise OptionError(f"{self.name} has a constant learning rate and no images: leave --lr-schedule and --inputs out.")


@dataclass(frozen=True, eq=False)
class Channels:
    """What a task makes of an observation: x_i <- f_i x_{order i}."""

    order: Tensor
    factors: Tensor

    def __call__(self, observations: Tensor) -> Tensor:
        """[environments, channels] -> the same shape."""
        return observations.index_select(1, self.order).mul_(self.factors)


def channels(seed: int, task: int) -> Channels:
    """The channels of a task.

    >>> channels(0, 3)(torch.ones(1, 4)).shape
    torch.Size([1, 4])
    """
    random = generator(seed, f"changing-channels {task}")
    order = torch.randperm(CHANNELS, generator=random)
    signs = torch.randint(2, (CHANNELS,), generator=random) * 2.0 - 1
    spread = ((torch.rand(CHANNELS, generator=random) * 2 - 1) * math.log(SPREAD)).exp()
    return Channels(order, signs * spread / torch.tensor(SCALES)[order])
