"""Training an agent: one task after the other, the return of each, exact resume.

Everything but the networks and their optimizers begins again with an epoch, which is a whole task, from the run's seed and the
epoch's number: the environments, the memory, the exploration, the random numbers. A checkpoint between two epochs is therefore
complete with the networks, the optimizers and the methods.
"""

from __future__ import annotations

import math
import time
from typing import Any

import torch

from swr.bench.data import Dataset
from swr.bench.experiments import RunConfig, find_column
from swr.bench.experiments.agent_networks import networks
from swr.bench.experiments.models import MODELS, build
from swr.bench.experiments.seeds import generator, seed_of
from swr.bench.experiments.streams.changing_channels import channels
from swr.bench.training.agents.dqn import DQN
from swr.bench.training.agents.environments import COPIES, LIMIT, Environments
from swr.bench.training.agents.learner import Learner
from swr.bench.training.agents.ppo import PPO
from swr.bench.training.epoch import Epoch
from swr.bench.training.online import Online
from swr.errors import OptionError
from swr.methods.tools.layers import weights
from swr.norms import frobenius_norms

AGENTS: dict[str, type[DQN] | type[PPO]] = {"dqn": DQN, "ppo": PPO}


class ControlTraining:
    """An agent, moved forward one epoch at a time; a task has one or more.

    Args:
        config: Of the run.
        dataset: The shape of an observation, and the number of actions.
        device: The CPU, where the environments are.
    """

    def __init__(self, config: RunConfig, dataset: Dataset, device: str = "cpu") -> None:
        if torch.device(device).type != "cpu":
            raise OptionError(f"agents are trained on the CPU, where their environments are, found --device {device}.")
        assert config.examples is not None  # the stream checks it
        self.config, self.steps = config, -(-config.examples // COPIES)
        torch.manual_seed(seed_of(config.seed, "parameters"))
        name = find_column(config.column).model
        shape = dataset.train.images.shape[1:]
        self.model = build(name, (shape[0], shape[1], shape[2]), dataset.classes)
        example = torch.zeros(2, shape.numel())
        self.learners = {name: Learner(name, network, config, example) for name, network in networks(self.model).items()}
        self.agent = AGENTS[MODELS[name].agent or ""](self.learners, config)
        self.online = Online(config.setting, len(config.epochs))
        self.done = 0
        """epochs trained so far"""
        self._weights = weights(self.model)
        self._stages = [stage for stage, epochs in enumerate(config.epochs) for _ in range(epochs)]

    def epoch(self) -> Epoch:
        """Learn for the steps of one epoch and measure."""
        begin = time.perf_counter()
        number, stage = self.done + 1, self._stages[self.done]
        if self.done and stage != self._stages[self.done - 1]:
            for learner in self.learners.values():
                learner.method.new_task()
        seed = self.config.seed
        environments = Environments(channels(seed, stage), seed_of(seed, f"environments {number}") % 2**31)
        loss = self.agent.learn(environments, self.steps, generator(seed, f"agent {number}"))
        score = environments.mean_return / LIMIT
        self.online.add(stage, score)
        self.done = number
        norms = frobenius_norms([p.detach() for p in self._weights.values()]).tolist()
        return Epoch(
            epoch=number,
            stage=stage,
            total=self.config.total,
            train_loss=loss,
            train_accuracy=score,
            test_accuracy=math.nan,
            validation_accuracy=None,
            norms=dict(zip(self._weights, norms, strict=True)),
            seconds=time.perf_counter() - begin,
            measures=self.online.measures(),
        )

    def state_dict(self) -> dict[str, Any]:
        """Everything that the next epoch depends on."""
        learners = {name: learner.state_dict() for name, learner in self.learners.items()}
        return {"done": self.done, "online": self.online.state_dict(), "learners": learners}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue exactly where :meth:`state_dict` was taken."""
        self.done = int(state["done"])
        self.online.load_state_dict(state["online"])
        for name, learner in self.learners.items():
            learner.load_state_dict(state["learners"][name])
