"""PPO: a policy that is improved on its own latest actions, and a critic that says how good they were.

    δ_t = r_t + γ (1 - failed_t) V(s_{t+1}) - V(s_t),   A_t = δ_t + γ λ (1 - ended_t) A_{t+1}
    L_actor = - mean min(ρ A, clip(ρ, 1 - ε, 1 + ε) A),   ρ = π(a|s) / π_old(a|s),   A standardised in each batch
    L_critic = mean (V(s) - (A + V_old(s)))²

J. Schulman et al., 2017, "Proximal Policy Optimization Algorithms"; advantages as in "High-Dimensional Continuous Control Using
Generalized Advantage Estimation", 2016. Actor and critic are networks of their own, without a bonus for entropy.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from swr.bench.experiments import RunConfig
from swr.bench.experiments.agent_networks import GAMMA
from swr.bench.training.agents.environments import Environments
from swr.bench.training.agents.learner import Learner

HORIZON = 16
"""steps in each environment between two improvements"""
PASSES = 4
"""over the steps of one improvement"""
LAMBDA = 0.95
"""λ of the advantages"""
CLIP = 0.2
"""ε of the ratio"""


class PPO:
    """Acts by its policy, and improves it after every horizon.

    Args:
        learners: Two, the actor and the critic.
        config: Of the run.
    """

    def __init__(self, learners: dict[str, Learner], config: RunConfig) -> None:
        self.actor, self.critic = learners["actor"], learners["critic"]
        self.batch_size = config.batch_size

    def learn(self, environments: Environments, steps: int, random: Generator) -> float:
        """Learn a task; returns the mean loss of the critic.

        Args:
            environments: To act in.
            steps: In each of them.
            random: Of the actions and the batches.
        """
        losses: list[Tensor] = []
        for begin in range(0, steps, HORIZON):
            losses += self._improve(self._collect(environments, min(HORIZON, steps - begin), random), random)
        return float(torch.stack(losses).mean())

    @torch.inference_mode()
    def _collect(self, environments: Environments, steps: int, random: Generator) -> tuple[Tensor, ...]:
        """Observations, actions, their log-probabilities, advantages and returns of some steps."""
        seen, actions, likely, done = [environments.observations], [], [], []
        for _ in range(steps):
            chances = F.log_softmax(self.actor.model(seen[-1]), 1)
            action = torch.multinomial(chances.exp(), 1, generator=random)
            likely.append(chances.gather(1, action).squeeze(1))
            actions.append(action.squeeze(1))
            done.append(environments.step(actions[-1]))
            seen.append(environments.observations)
        acted, rewards, failed, ended = (torch.stack(values) for values in zip(*done, strict=True))
        values = self.critic.model(torch.cat(seen)).view(steps + 1, -1)
        gains = advantages(rewards, values, failed, ended)
        found = (torch.stack(seen[:-1]), torch.stack(actions), torch.stack(likely), gains, gains + values[:-1])
        return tuple(part[acted] for part in found)

    def _improve(self, collected: tuple[Tensor, ...], random: Generator) -> list[Tensor]:
        """Some passes over these steps; returns the losses of the critic."""
        seen, actions, likely, gains, goals = (tensor.clone() for tensor in collected)  # out of inference mode
        losses = []
        for _ in range(PASSES):
            for index in torch.randperm(len(actions), generator=random).split(self.batch_size):
                if len(index) < 2:  # one advantage has no deviation
                    continue
                inputs, gain = seen[index], gains[index]
                chances = F.log_softmax(self.actor.model(inputs), 1).gather(1, actions[index].unsqueeze(1)).squeeze(1)
                ratio = (chances - likely[index]).exp()
                gain = (gain - gain.mean()) / (gain.std() + 1e-8)
                self.actor.descend(-torch.minimum(ratio * gain, ratio.clamp(1 - CLIP, 1 + CLIP) * gain).mean())
                loss = F.mse_loss(self.critic.model(inputs).squeeze(1), goals[index])
                self.critic.descend(loss)
                losses.append(loss.detach())
        return losses


def advantages(rewards: Tensor, values: Tensor, failed: Tensor, ended: Tensor) -> Tensor:
    """A_t of every step, [steps, environments].

    Args:
        rewards: r_t.
        values: V(s_t), one more than there are steps.
        failed: 1 where no reward follows.
        ended: 1 where the next state belongs to another episode.
    """
    steps = rewards + GAMMA * (1 - failed) * values[1:] - values[:-1]
    kept = GAMMA * LAMBDA * (1 - ended)
    found, following = [], torch.zeros_like(steps[0])
    for step, keep in zip(reversed(steps.unbind()), reversed(kept.unbind()), strict=True):
        following = step + keep * following
        found.append(following)
    return torch.stack(found[::-1])
