"""How far two networks are from proportional: f_θ'(x) = C f_θ(x) with C > 0."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from swr.errors import InputsError
from swr.probe import outputs


@dataclass(frozen=True)
class Proportionality:
    """The constant that fits best, and the remaining error."""

    constant: float
    """C, in least squares; 0 when no positive constant fits better than 0"""
    error: float
    """‖f_θ'(x) − C f_θ(x)‖ / ‖f_θ'(x)‖: the sine of the angle between the outputs, 0 when proportional, at most 1"""


def proportionality(before: Tensor | nn.Module, after: Tensor | nn.Module, inputs: Any = None) -> Proportionality:
    """The proportionality error between two outputs, or between two models on the same inputs.

        C = argmin_{C > 0} ‖f_θ'(x) − C f_θ(x)‖,   error = ‖f_θ'(x) − C f_θ(x)‖ / ‖f_θ'(x)‖

    >>> proportionality(torch.tensor([1.0, 2.0]), torch.tensor([2.0, 4.0]))
    Proportionality(constant=2.0, error=0.0)
    >>> proportionality(torch.tensor([1.0, 0.0]), torch.tensor([3.0, 4.0]))
    Proportionality(constant=3.0, error=0.8)

    Args:
        before: f_θ(x), or the model itself, which is run in evaluation mode.
        after: f_θ'(x), or the model itself.
        inputs: a tensor or a tuple of positional inputs, needed for models.

    Raises:
        InputsError: the outputs differ in size, or models were given without inputs.
    """
    f, g = (outputs(side, _given(inputs)) if isinstance(side, nn.Module) else side for side in (before, after))
    if f.shape != g.shape:
        f, g = f.flatten(), g.flatten()
    if f.shape != g.shape:
        raise InputsError(
            f"outputs of {f.numel()} and {g.numel()} numbers cannot be proportional; use the same inputs for both."
        )
    f, g = f.detach().double(), g.detach().double()
    size = float(g.norm())
    if size == 0:
        return Proportionality(0.0, 0.0)
    square = float((f * f).sum())
    constant = max(float((f * g).sum()) / square, 0.0) if square > 0 else 0.0
    return Proportionality(constant, float((g - constant * f).norm()) / size)


def _given(inputs: Any) -> Any:
    if inputs is None:
        raise InputsError("comparing models needs inputs; pass a batch for their forward as the third argument.")
    return inputs
