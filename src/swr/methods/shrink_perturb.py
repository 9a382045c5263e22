"""Shrink & Perturb with one coefficient (Ash and Adams, 2020; the form of Lee et al., 2024)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from swr.errors import OptionError
from swr.methods.base import Batches, LossFunction, Method, learnable, restore, saved


class ShrinkPerturb(Method):
    """Move all learnable parameters a part of the way back to the saved initial ones, when the data changes.

        θ <- (1 - λ) θ + λ θ_0

    >>> method = ShrinkPerturb(model, coefficient=0.4)
    >>> method.new_task()

    When:
        At a new task.

    Touches:
        All learnable parameters. Running statistics of normalisation layers and the optimizer's state stay as they are.

    Keeps:
        θ_0, the size of the model once more.

    Args:
        coefficient: λ in [0, 1]; with 0 nothing is done.
    """

    title = "S&P"
    symbols = {"coefficient": "λ"}  # noqa: RUF012

    def __init__(self, model: nn.Module, example_inputs: Any = None, *, coefficient: float, seed: int = 0) -> None:
        super().__init__(model, example_inputs, seed=seed)
        if isinstance(coefficient, bool) or not isinstance(coefficient, (int, float)) or not 0 <= coefficient <= 1:
            raise OptionError(f"coefficient λ must be a number between 0 and 1, found {coefficient!r}.")
        self.coefficient = float(coefficient)
        self._parameters = learnable(model)
        self._initial = saved(self._parameters)

    @torch.no_grad()
    def new_task(self, batches: Batches | None = None, loss_fn: LossFunction | None = None) -> None:
        """θ <- (1 - λ) θ + λ θ_0."""
        if not self.coefficient:
            return
        parameters: list[Tensor] = list(self._parameters.values())
        torch._foreach_mul_(parameters, 1 - self.coefficient)
        torch._foreach_add_(parameters, list(self._initial.values()), alpha=self.coefficient)

    def _state(self) -> dict[str, Any]:
        return {"initial": dict(self._initial)}

    def _load(self, state: dict[str, Any]) -> None:
        restore(self._initial, state["initial"])
