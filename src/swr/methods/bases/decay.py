"""Penalties whose gradient is known, so that autograd is not needed for it.

With a difference δ that is linear in θ:

    penalty = λ/2 ‖δ‖²,   gradient = λ δ,   δ = θ or θ - θ_0
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from swr.methods.base import learnable
from swr.methods.bases.penalty import Penalty
from swr.methods.tools.penalty_gradients import add_to_gradients, held_by


class Decay(Penalty):
    """λ/2 ‖δ‖² for a difference δ that is linear in θ; a subclass says which.

    Args:
        coefficient: λ, at least 0; with 0 nothing is done.
    """

    def __init__(self, model: nn.Module, example_inputs: Any = None, *, coefficient: float, seed: int = 0) -> None:
        super().__init__(model, example_inputs, coefficient=coefficient, seed=seed)
        self._parameters = learnable(model)

    def differences(self, parameters: Sequence[nn.Parameter]) -> list[Tensor]:
        """δ of these of the learnable parameters."""
        raise NotImplementedError

    def value(self) -> Tensor | None:
        """‖δ‖² / 2."""
        terms = [difference.square().sum() for difference in self.differences(list(self._parameters.values()))]
        return 0.5 * torch.stack(terms).sum() if terms else None

    def add_penalty(self, optimizer: Optimizer) -> None:
        """∇ <- ∇ + λ δ."""
        if self.coefficient:
            held = held_by(optimizer, list(self._parameters.values()))
            with torch.no_grad():
                differences = self.differences(held)
            add_to_gradients(optimizer, held, differences, self.coefficient)

    @torch.no_grad()
    def added_penalty(self) -> Tensor | None:
        """λ/2 ‖δ‖²."""
        value = self.value() if self.coefficient else None
        return None if value is None else self.coefficient * value
