"""Decoupled weight decay: shrink the weights apart from the gradient (Loshchilov and Hutter, 2019)."""

from __future__ import annotations

from typing import Any, Literal, get_args

import torch
from torch import nn
from torch.optim import Optimizer

from swr.checks import at_least_zero, choice
from swr.errors import AttachError
from swr.methods.base import Method, learnable
from swr.methods.tools.layers import affine_layers
from swr.methods.tools.penalty_gradients import held_by
from swr.methods.tools.tuning import along

Decayed = Literal["weights", "all"]


class WeightDecay(Method):
    """Shrink weights by the learning rate times λ at every step, whatever the optimizer makes of the gradient.

        θ <- (1 - η λ) θ,   then the optimizer's own update; η is the learning rate of the parameter's group now

    With Adam this is AdamW, exactly: torch decays before the update, and so does this.

    >>> method = WeightDecay(model, coefficient=1e-2)
    >>> handle = method.attach(optimizer)

    When:
        Just before every step of the optimizer, which it has to be attached to for η.

    Touches:
        Weights of convolutions and fully connected layers, or all learnable parameters.

    Keeps:
        Nothing.

    Args:
        coefficient: λ, at least 0.
        parameters: "weights" spares biases, normalisation layers and embeddings, as is the convention; "all" spares nothing, as
            torch.optim.AdamW does with one group.

    References:
        I. Loshchilov, F. Hutter, 2019, "Decoupled Weight Decay Regularization", arXiv 1711.05101.
    """

    name = "weight-decay"
    title = "weight decay"
    tuning = along("coefficient", 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
    owns = frozenset({"how weights decay apart from the gradient"})
    symbols = {"coefficient": "λ"}  # noqa: RUF012

    def __init__(
        self,
        model: nn.Module,
        example_inputs: Any = None,
        *,
        coefficient: float = 1e-2,
        parameters: Decayed = "weights",
        seed: int = 0,
    ) -> None:
        super().__init__(model, example_inputs, seed=seed)
        choice(parameters, "parameters", get_args(Decayed))
        self.coefficient = at_least_zero(coefficient, "coefficient λ")
        chosen = learnable(model).values() if parameters == "all" else [layer.weight for layer in affine_layers(model)]
        self._decayed = list(chosen)

    @torch.no_grad()
    def before_step(self, optimizer: Optimizer | None = None) -> None:
        """θ <- (1 - η λ) θ."""
        optimizer = optimizer or self.optimizer
        if optimizer is None or not self.attached:
            raise AttachError("weight decay takes the learning rate from the optimizer; call attach(optimizer) first.")
        if not self.coefficient:
            return
        skipped = getattr(optimizer, "found_inf", None)  # a fused optimizer under GradScaler is called all the same
        held = set(held_by(optimizer, self._decayed))
        for group in optimizer.param_groups:
            tensors = [p for p in group["params"] if p in held]
            factor = 1 - group["lr"] * self.coefficient
            if skipped is not None and tensors:
                factor = torch.where(skipped.to(tensors[0].device) > 0, 1.0, factor)
            if tensors:
                torch._foreach_mul_(tensors, factor)
