"""Cautious weight decay: decay only the entries that the update shrinks too (Chen et al., 2025)."""

from __future__ import annotations

from typing import Any, get_args

import torch
from torch import nn

from swr.checks import at_least_zero, choice
from swr.methods.base import learnable
from swr.methods.bases.update_method import Moved, UpdateMethod
from swr.methods.tools.layers import affine_layers
from swr.methods.tools.tuning import along
from swr.methods.weight_decay import Decayed


class CautiousDecay(UpdateMethod):
    """Decoupled weight decay of the entries that the optimizer's update does not move away from zero.

        θ <- θ - η (u + λ [u θ >= 0] θ),   entry by entry;   u = the optimizer's update, η the learning rate

    Where the update makes an entry larger in magnitude, u θ < 0, nothing is decayed: decay never acts against the update. For
    θ = (1, -2), η = 0.1, λ = 0.5 and u = (1, 1): u θ = (1, -2), θ <- (1 - 0.1 - 0.05, -2 - 0.1) = (0.85, -2.1).

    >>> method = CautiousDecay(model, coefficient=0.1)
    >>> handle = method.attach(optimizer)

    When:
        Around every step of the optimizer, which it has to be attached to for η and u.

    Touches:
        Weights of convolutions and fully connected layers, or all learnable parameters.

    Keeps:
        Nothing; within a step a copy of the decayed parameters.

    Args:
        coefficient: λ, at least 0.
        parameters: "weights" spares biases, normalisation layers and embeddings; "all" spares nothing.

    References:
        L. Chen et al., 2025, "Cautious Weight Decay", arXiv 2510.12402 (Algorithm 1).
    """

    name = "cautious-decay"
    title = "cautious decay"
    tuning = along("coefficient", 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
    symbols = {"coefficient": "λ"}  # noqa: RUF012
    owns = frozenset({"how weights decay apart from the gradient"})

    def __init__(
        self,
        model: nn.Module,
        example_inputs: Any = None,
        *,
        coefficient: float = 1e-2,
        parameters: Decayed = "weights",
        seed: int = 0,
    ) -> None:
        choice(parameters, "parameters", get_args(Decayed))
        self.coefficient = at_least_zero(coefficient, "coefficient λ")
        decayed = list(learnable(model).values()) if parameters == "all" else [layer.weight for layer in affine_layers(model)]
        super().__init__(model, example_inputs, parameters=decayed if self.coefficient else (), seed=seed)

    def change(self, moved: Moved) -> None:
        """Decay what was shrunk."""
        for p, before, rate in zip(*moved, strict=True):
            shrunk = (p - before) * before <= 0
            p.sub_(torch.where(shrunk, before, 0.0) * (rate * self.coefficient))
