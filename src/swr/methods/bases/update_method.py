"""Methods that look at the update which the optimizer has just made, and change it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from swr.errors import AttachError
from swr.methods.base import Method, Turn
from swr.methods.tools.penalty_gradients import held_by


class Moved(NamedTuple):
    """Parameters around a step of the optimizer.

    Attributes:
        parameters: as the optimizer has left them.
        before: as they were.
        rates: the learning rate of each; 0 if the optimizer skipped the step, which only the device knows.
    """

    parameters: list[Tensor]
    before: list[Tensor]
    rates: list[Any]


class UpdateMethod(Method):
    """Remember some parameters before every step, and change what the step made of them; a subclass says how.

    Args:
        parameters: the ones it acts on.
    """

    turn: ClassVar[Turn] = "first"

    def __init__(
        self, model: nn.Module, example_inputs: Any = None, *, parameters: Sequence[nn.Parameter], seed: int = 0
    ) -> None:
        super().__init__(model, example_inputs, seed=seed)
        self._parameters = list(parameters)
        self._moving: Moved | None = None
        """between the halves of a step"""

    def change(self, moved: Moved) -> None:
        """Change the parameters, in place."""
        raise NotImplementedError

    @torch.no_grad()
    def before_step(self, optimizer: Optimizer | None = None) -> None:
        """Remember the parameters.

        Args:
            optimizer: the one whose step follows; by default the one it is attached to.
        """
        optimizer = self.optimizer if optimizer is None else optimizer
        if optimizer is None:
            raise AttachError(
                f"{self.title} depends on the learning rate: attach the optimizer, or call before_step(optimizer)."
            )
        rates = {id(p): group["lr"] for group in optimizer.param_groups for p in group["params"]}
        held: list[Tensor] = list(held_by(optimizer, self._parameters))
        self._moving = Moved(held, list(torch._foreach_clone(held)) if held else [], [rates[id(p)] for p in held])

    def after_step(self, optimizer: Optimizer) -> None:
        """Change the update that the optimizer has made."""
        self._change(getattr(optimizer, "found_inf", None))  # a fused optimizer under GradScaler skips steps by itself

    def step(self) -> None:
        """Change the update that the optimizer has made since :meth:`before_step`."""
        self._change(None)

    @torch.no_grad()
    def _change(self, skipped: Tensor | None) -> None:
        moved, self._moving = self._moving, None
        if moved is None or not moved.parameters:
            return
        if skipped is not None:
            made = skipped.to(moved.before[0].device) == 0
            moved = moved._replace(rates=[torch.where(made, rate, 0.0) for rate in moved.rates])
        self.change(moved)
