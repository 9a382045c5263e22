"""Several environments side by side, observed in the channels of a task.

Gymnasium's CartPole-v1, all copies in one numpy array. After an episode has ended, the next step of its environment is no
step: it ignores the action and returns the first observation of the next episode.
"""

from __future__ import annotations

from typing import NamedTuple

import gymnasium
import numpy as np
import torch
from torch import Tensor

from swr.bench.experiments.streams.changing_channels import Channels

NAME = "CartPole-v1"
LIMIT = 500
"""steps of an episode at most, and so the largest return: every step's reward is 1"""
COPIES = 32
"""environments that an agent learns in"""


class Step(NamedTuple):
    """What became of one action in each environment."""

    acted: Tensor
    """bool: False where the step only began an episode, whose transition is none"""
    rewards: Tensor
    terminated: Tensor
    """1 where the episode failed, so that no reward follows; 0 where it was only cut off, or goes on"""
    ended: Tensor
    """1 where the episode failed or was cut off"""


class Environments:
    """Copies of the environment.

    Args:
        channels: Of the task.
        seed: Of everything that is random in them.
        copies: How many.
    """

    def __init__(self, channels: Channels, seed: int, copies: int = COPIES) -> None:
        self._vector = gymnasium.make_vec(NAME, num_envs=copies, vectorization_mode="vector_entry_point")
        self._channels = channels
        first, _ = self._vector.reset(seed=seed)
        self.observations = channels(torch.from_numpy(first))
        """[copies, channels]: what the agent sees now"""
        self._acted = torch.ones(copies, dtype=torch.bool)
        self.reward = 0.0
        """of all steps so far"""
        self.episodes = copies
        """begun so far"""

    def step(self, actions: Tensor) -> Step:
        """Act once in each."""
        found, rewards, terminated, truncated, _ = self._vector.step(actions.numpy())
        self.observations = self._channels(torch.from_numpy(found))
        acted = self._acted
        self._acted = torch.from_numpy(~(terminated | truncated))
        self.reward += float(np.sum(rewards))
        self.episodes += int(np.sum(~acted.numpy()))
        return Step(acted, *(torch.from_numpy(values).float() for values in (rewards, terminated, terminated | truncated)))

    @property
    def mean_return(self) -> float:
        """The reward of an episode so far, those that have not ended included."""
        return self.reward / self.episodes
