"""Methods that add a penalty λ R(θ) to the loss."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from swr.checks import at_least_zero
from swr.methods.base import Method


class Penalty(Method):
    """λ R(θ); a subclass says what R is. Autocast does not reach it: R is computed in full precision.

    Args:
        coefficient: λ, at least 0; with 0 nothing is done.
    """

    symbols = {"coefficient": "λ"}  # noqa: RUF012

    def __init__(self, model: nn.Module, example_inputs: Any = None, *, coefficient: float, seed: int = 0) -> None:
        super().__init__(model, example_inputs, seed=seed)
        self.coefficient = at_least_zero(coefficient, f"coefficient {self.symbols['coefficient']}")

    def value(self) -> Tensor | None:
        """R(θ) now, as a tensor that can be differentiated; None where the network has nothing to penalise."""
        raise NotImplementedError

    def penalty(self) -> Tensor | None:
        """λ R(θ), to add to the loss of a loop whose optimizer does not add its gradient."""
        if not self.coefficient:
            return None
        with torch.autocast(next(self.model.parameters()).device.type, enabled=False):
            value = self.value()
        return None if value is None else self.coefficient * value
