"""Is it the reset that helps, or what the optimizer forgets with it? Resets with other policies, as methods in the bench.

    swr run permuted-pixels --columns digits-mlp --methods examples.optimizer_state:Moments --seeds 300-304

runs one from the folder above this one; docs/leaderboard.md says what came out. Adam divides by the root of its second moment.
If the moments are cleared and the step count is not, that root is too small for some hundred steps, and the first updates are
several times the learning rate. If the count is cleared too, they are the learning rate, as in a new training.
"""

from __future__ import annotations

from typing import Any

from torch import nn

from swr.methods import Fire, FullReset, HeadReset, LaterLayerForgetting, Method
from swr.methods.tools.optimizer_state import Policy, forget


class Moments(Method):
    """At a new task clear Adam's moments and keep its step count; no weight changes."""

    title = "moments cleared, weights stay"
    policy: Policy = "clear_moments"

    def new_task(self, batches: Any = None, loss_fn: Any = None) -> None:
        """The optimizer forgets."""
        for parameter in self.model.parameters():
            forget(self.optimizer, parameter, policy=self.policy)


class Restart(Moments):
    """At a new task start the optimizer again; no weight changes."""

    title = "optimizer restarted, weights stay"
    policy = "clear_all"


class HeadRestart(HeadReset):
    """Head reset, with the optimizer started again for the head. With moments cleared it is RIFLE's reset at a new task."""

    title = "head reset, optimizer restarted"

    def __init__(self, model: nn.Module, example_inputs: Any = None, *, seed: int = 0) -> None:
        super().__init__(model, example_inputs, optimizer_state="clear_all", seed=seed)


class LaterRestart(LaterLayerForgetting):
    """LLF, with the optimizer started again for the later layers.

    first: L.
    """

    title = "LLF, optimizer restarted"

    def __init__(self, model: nn.Module, example_inputs: Any = None, *, first: float = 1, seed: int = 0) -> None:
        super().__init__(model, example_inputs, first=int(first), optimizer_state="clear_all", seed=seed)


class FireRestart(Fire):
    """FIRE, with the optimizer started again for its weights."""

    title = "FIRE, optimizer restarted"

    def __init__(self, model: nn.Module, example_inputs: Any = None, *, seed: int = 0) -> None:
        super().__init__(model, example_inputs, optimizer_state="clear_all", seed=seed)


class FullMoments(FullReset):
    """A fresh network for every task whose optimizer keeps its step count."""

    title = "fresh network, moments cleared"

    def __init__(self, model: nn.Module, example_inputs: Any = None, *, seed: int = 0) -> None:
        super().__init__(model, example_inputs, optimizer_state="clear_moments", seed=seed)
