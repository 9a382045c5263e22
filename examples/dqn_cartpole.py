"""Soft Weight Rescaling for value functions: DQN on CartPole, where the outputs themselves must not be scaled.

    pip install gymnasium
    python examples/dqn_cartpole.py --steps 20000

A Q-network predicts returns, so C·Q is wrong however small C - 1 is. With ``keep_output=True`` the layers' norms are pulled
against each other and Q itself stays what it was; what a rescale changes of Q is measured at the end.
"""

from __future__ import annotations

import argparse
import copy

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn

import swr


class Replay:
    """The last transitions, in a ring."""

    def __init__(self, capacity: int, width: int, generator: torch.Generator) -> None:
        self.states, self.next_states = torch.zeros(capacity, width), torch.zeros(capacity, width)
        self.actions = torch.zeros(capacity, dtype=torch.long)
        self.rewards, self.ends = torch.zeros(capacity), torch.zeros(capacity)
        self.capacity, self.count, self.generator = capacity, 0, generator

    def add(self, state: Tensor, action: int, reward: float, next_state: Tensor, end: bool) -> None:
        i = self.count % self.capacity
        self.states[i], self.next_states[i] = state, next_state
        self.actions[i], self.rewards[i], self.ends[i] = action, reward, float(end)
        self.count += 1

    def draw(self, size: int) -> tuple[Tensor, ...]:
        index = torch.randint(0, min(self.count, self.capacity), (size,), generator=self.generator)
        return self.states[index], self.actions[index], self.rewards[index], self.next_states[index], self.ends[index]


def train(steps: int, coefficient: float | None, seed: int) -> None:
    """DQN with a target network and a falling ε; prints the mean return of the last episodes now and then."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    environment = gym.make("CartPole-v1")
    state = torch.as_tensor(environment.reset(seed=seed)[0])
    q = nn.Sequential(nn.Linear(4, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 2))
    optimizer = torch.optim.Adam(q.parameters(), lr=1e-3)
    rescaler = None
    if coefficient is not None:
        rescaler = swr.SoftWeightRescaling(q, state[None], coefficient=coefficient, keep_output=True)  # the first line
        handle = rescaler.attach(optimizer)  # the second line
    target = copy.deepcopy(q)
    replay = Replay(10_000, 4, generator)
    returns: list[float] = [0.0]
    print(f"SWR with λ = {coefficient}" if coefficient else "without SWR", flush=True)
    for step in range(1, steps + 1):
        epsilon = max(0.05, 1 - step / (0.4 * steps))
        if float(torch.rand((), generator=generator)) < epsilon:
            action = int(torch.randint(0, 2, (), generator=generator))
        else:
            with torch.no_grad():
                action = int(q(state).argmax())
        observation, reward, terminated, truncated, _ = environment.step(np.int64(action))
        next_state = torch.as_tensor(observation)
        replay.add(state, action, float(reward), next_state, terminated)
        returns[-1] += float(reward)
        state = next_state
        if terminated or truncated:
            state = torch.as_tensor(environment.reset()[0])
            returns.append(0.0)
        if step >= 500 and step % 2 == 0:
            states, actions, rewards, next_states, ends = replay.draw(64)
            with torch.no_grad():
                goal = rewards + 0.99 * (1 - ends) * target(next_states).amax(1)
            loss = nn.functional.smooth_l1_loss(q(states).gather(1, actions[:, None])[:, 0], goal)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if step % 250 == 0:
            target.load_state_dict(q.state_dict())
        if step % max(1, steps // 4) == 0:
            recent = returns[-21:-1] or returns
            norms = " ".join(f"{float(p.detach().norm()):5.2f}" for p in q.parameters() if p.ndim == 2)
            print(
                f"  step {step:>6}: return {sum(recent) / len(recent):6.1f} over {len(recent)} episodes, weight norms {norms}"
            )
    if rescaler is not None:
        handle.remove()
        states, norm_of = replay.draw(256)[0], rescaler.norms()
        with torch.no_grad():
            before = q(states)
            rescaler.step()
            change = float((q(states) - before).abs().max() / before.abs().max())
        moved = max(abs(now / norm_of[name] - 1) for name, now in rescaler.norms().items())
        print(f"  one more rescale moves a weight's norm by up to {moved:.1e} of it, and Q by {change:.1e}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=5000, help="steps in the environment, each of two runs (default: 5000)")
    parser.add_argument("--coefficient", type=float, default=1e-3, help="λ (default: 0.001)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    for coefficient in (None, options.coefficient):
        train(options.steps, coefficient, options.seed)


if __name__ == "__main__":
    main()
