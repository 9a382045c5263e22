"""DQN: the value of each action, learned from remembered transitions.

    L = mean huber(Q(s, a) - y),   y = r + γ (1 - failed) max_a' Q⁻(s', a'),   Q⁻ a copy of Q, taken again every few steps

V. Mnih et al., 2015, "Human-level control through deep reinforcement learning".
"""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from swr.bench.experiments import RunConfig
from swr.bench.experiments.agent_networks import GAMMA
from swr.bench.training.agents.environments import Environments
from swr.bench.training.agents.learner import Learner

EXPLORING = 0.2
"""part of a task over which ε falls from 1 to its last value"""
EPSILON = 0.05
"""that last value: the part of actions that are random"""
WARM_UP = 10
"""steps, each of all environments, before the first update"""
UPDATES = 2
"""after every step from then on"""
COPIED = 25
"""updates from one copy to the next"""


class DQN:
    """Acts greedily but for a part ε of its actions, and updates its values after every step.

    Args:
        learners: One, of the values.
        config: Of the run.
    """

    def __init__(self, learners: dict[str, Learner], config: RunConfig) -> None:
        self.values = learners["q"]
        self.batch_size = config.batch_size

    def learn(self, environments: Environments, steps: int, random: Generator) -> float:
        """Learn a task, with an empty memory; returns the mean loss.

        Args:
            environments: To act in.
            steps: In each of them.
            random: Of the exploration and the batches.
        """
        memory = Memory(steps * len(environments.observations), environments.observations.shape[1])
        target = copy.deepcopy(self.values.model)
        losses: list[Tensor] = []
        for step in range(steps):
            seen = environments.observations
            actions = self._explore(seen, max(EPSILON, 1 - step / (EXPLORING * steps)), random)
            done = environments.step(actions)
            memory.add(done.acted, seen, environments.observations, actions, done.rewards, done.terminated)
            if step < WARM_UP:
                continue
            for _ in range(UPDATES):
                if len(losses) % COPIED == 0:
                    target.load_state_dict(self.values.model.state_dict())
                losses.append(self._update(target, *memory.draw(self.batch_size, random)))
        return float(torch.stack(losses).mean())

    def _update(
        self, target: nn.Module, before: Tensor, after: Tensor, actions: Tensor, rewards: Tensor, failed: Tensor
    ) -> Tensor:
        """One step down the loss of a batch; returns the loss."""
        with torch.no_grad():
            goal = rewards + GAMMA * (1 - failed) * target(after).amax(1)
        loss = F.smooth_l1_loss(self.values.model(before).gather(1, actions.unsqueeze(1)).squeeze(1), goal)
        self.values.descend(loss)
        return loss.detach()

    @torch.inference_mode()
    def _explore(self, observations: Tensor, epsilon: float, random: Generator) -> Tensor:
        count = len(observations)
        explores = torch.rand(count, generator=random) < epsilon
        return torch.where(explores, torch.randint(2, (count,), generator=random), self.values.model(observations).argmax(1))


class Memory:
    """Transitions of a task: all of them fit.

    Args:
        capacity: How many there can be.
        width: Of an observation.
    """

    def __init__(self, capacity: int, width: int) -> None:
        self._kept = (
            torch.zeros(capacity, width),
            torch.zeros(capacity, width),
            torch.zeros(capacity, dtype=torch.int64),
            torch.zeros(capacity),
            torch.zeros(capacity),
        )
        self.count = 0

    def add(self, which: Tensor, *values: Tensor) -> None:
        """Remember transitions: observation before and after, action, reward, whether it failed.

        Args:
            which: Those that are transitions.
        """
        end = self.count + int(which.sum())
        for kept, given in zip(self._kept, values, strict=True):
            kept[self.count : end] = given[which]
        self.count = end

    def draw(self, size: int, random: Generator) -> tuple[Tensor, ...]:
        """A batch, drawn with replacement."""
        index = torch.randint(self.count, (size,), generator=random)
        return tuple(kept.index_select(0, index) for kept in self._kept)
