"""Agents that learn by acting in environments: DQN and PPO, and the control tasks that they are trained on."""

from swr.bench.training.agents.control import ControlTraining

__all__ = ["ControlTraining"]
