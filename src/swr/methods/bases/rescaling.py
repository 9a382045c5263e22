"""A method that is a :class:`swr.SoftWeightRescaling`."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from torch import nn
from torch.optim import Optimizer

from swr.errors import OptionError
from swr.hooks import Handle
from swr.methods.base import Method, PenaltyIn
from swr.rescaling import SoftWeightRescaling


class Rescaling(Method):
    """Rescales after every step of the optimizer.

    Args:
        model: the network.
        rescaler: what acts after every step.
        seed: of the generator that every method has.
    """

    owns = frozenset({"the norms of the weights"})

    def __init__(self, model: nn.Module, rescaler: SoftWeightRescaling, *, seed: int = 0) -> None:
        super().__init__(model, seed=seed)
        self.rescaler = rescaler

    def attach(self, optimizer: Optimizer, *, penalty: PenaltyIn = "gradients") -> Handle:
        """Rescale after every real step of this optimizer; there is no penalty."""
        self._handle = self.rescaler.attach(optimizer)
        return self._handle

    def step(self) -> None:
        """Rescale by hand."""
        self.rescaler.step()

    def state(self) -> dict[str, Any]:
        """What has to be saved."""
        return {"rescaler": self.rescaler.state_dict()}

    def load_state(self, state: dict[str, Any]) -> None:
        """The reverse of :meth:`state`."""
        self.rescaler.load_state_dict(state["rescaler"])


def refuse_unknown(options: Mapping[str, Any], *own: str) -> None:
    """Raise :class:`~swr.OptionError` for an option that the rescaler does not have.

    Args:
        options: what was given.
        own: options of the method that the rescaler does not have.
    """
    known = [name for name in inspect.signature(SoftWeightRescaling).parameters if name not in ("model", "example_inputs")]
    if unknown := [name for name in options if name not in known]:
        raise OptionError(f"SWR has no option {unknown[0]!r}: it takes {', '.join((*own, *known))}.")
