"""Methods that act after every n-th step of the optimizer."""

from __future__ import annotations

from typing import Any

from torch import nn

from swr.checks import interval
from swr.methods.base import Method


class Periodic(Method):
    """Count the optimizer's steps and act at each n-th; a subclass says how.

    Args:
        every: n; infinity for never.
    """

    def __init__(self, model: nn.Module, example_inputs: Any = None, *, every: float, seed: int = 0) -> None:
        super().__init__(model, example_inputs, seed=seed)
        self.every = interval(every, "every")
        self._steps = 0

    def act(self) -> None:
        """What is done at each n-th step."""
        raise NotImplementedError

    def step(self) -> None:
        """Count, and act when it is time."""
        self._steps += 1
        if self._steps % self.every == 0:
            self.act()

    def state(self) -> dict[str, Any]:
        """What has to be saved."""
        return {"steps": self._steps}

    def load_state(self, state: dict[str, Any]) -> None:
        """The reverse of :meth:`state`."""
        self._steps = int(state["steps"])
