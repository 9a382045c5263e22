"""Soft Weight Rescaling in stable-baselines3: PPO on CartPole, with and without the callback, saved and continued.

    pip install stable-baselines3
    python examples/sb3_cartpole.py --steps 20000 --seeds 3

The policy uses ReLU: with Tanh, the default of PPO, no layer could be scaled. Values and logits keep their scale, so that a
rescale moves norm between the layers and changes nothing that the agent says.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import gymnasium as gym
import torch
from stable_baselines3 import PPO
from torch import nn

from swr.integrations.stable_baselines3 import SWRCallback


def train(steps: int, seed: int, callback: SWRCallback | None) -> PPO:
    agent = PPO("MlpPolicy", "CartPole-v1", seed=seed, policy_kwargs={"activation_fn": nn.ReLU}, device="cpu")
    return agent.learn(steps, callback=callback)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=4096, help="steps in the environment, each run (default: 4096)")
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(1)
    for seed in range(options.seeds):
        for callback in (None, SWRCallback()):  # the line to add
            agent = train(options.steps, seed, callback)
            episodes = [episode["r"] for episode in agent.ep_info_buffer or ()]
            norms = " ".join(f"{float(p.detach().norm()):6.2f}" for p in agent.policy.parameters() if p.ndim == 2)
            print(f"seed {seed}, {'with SWR   ' if callback else 'without SWR'}: ", end="")
            print(
                f"return {sum(episodes) / len(episodes):6.1f} over {len(episodes)} episodes, weight norms {norms}", flush=True
            )
    with tempfile.TemporaryDirectory() as folder:
        agent.save(Path(folder) / "agent")  # the rescaler's state is in it
        again, callback = PPO.load(Path(folder) / "agent", env=gym.make("CartPole-v1"), device="cpu"), SWRCallback()
        again.learn(1, callback=callback, reset_num_timesteps=False)
    assert callback.rescaler is not None
    rescales = callback.rescaler.state_dict()["optimizers"][0]["steps"]
    print(f"saved, loaded and continued: {rescales} rescales since the start")


if __name__ == "__main__":
    main()
