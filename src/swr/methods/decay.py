"""Penalties whose gradient is known: as a term of the loss, or, cheaper, straight into the gradients.

    penalty = λ/2 ‖δ‖²,   gradient = λ δ,   δ = θ or θ - θ_0

A loop may use either way and gets the same gradients:

* not attached: :meth:`penalty` is the scalar to add to the loss, and autograd differentiates it;
* attached to an optimizer: ``λ δ`` is added to the gradients just before each step, and :meth:`penalty` is None, so that a
  loop that also adds ``penalty()`` counts it once. This saves autograd the term.

Attached, the penalty is applied once per optimizer step however many backward passes came before (gradient
accumulation), and it is not part of what a loop may clip. Under a GradScaler it is scaled like the other gradients.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from swr.errors import OptionError
from swr.hooks import Handle, group_of, unwrapped
from swr.methods.base import Method, learnable


class Decay(Method):
    """λ/2 ‖δ‖² for a difference δ that is linear in θ; a subclass says which.

    coefficient: λ, at least 0; with 0 nothing is done.
    """

    symbols = {"coefficient": "λ"}  # noqa: RUF012

    def __init__(self, model: nn.Module, example_inputs: Any = None, *, coefficient: float, seed: int = 0) -> None:
        super().__init__(model, example_inputs, seed=seed)
        if isinstance(coefficient, bool) or not isinstance(coefficient, (int, float)) or not 0 <= coefficient < float("inf"):
            raise OptionError(f"coefficient λ must be a number, at least 0, found {coefficient!r}.")
        self.coefficient = float(coefficient)
        self._parameters = learnable(model)
        self._stepped: list[int] = []

    def differences(self, indices: list[int] | None = None) -> list[Tensor]:
        """δ of the learnable parameters (those at the indices), in their order."""
        raise NotImplementedError

    def value(self) -> Tensor:
        """λ/2 ‖δ‖² as a tensor that can be differentiated, attached or not."""
        terms = [difference.square().sum() for difference in self.differences()]
        return 0.5 * self.coefficient * torch.stack(terms).sum()

    def penalty(self) -> Tensor | None:
        """λ/2 ‖δ‖² to add to the loss; None when attached, since the optimizer's step then takes care of it."""
        return None if self.attached or not self.coefficient else self.value()

    def attach(self, optimizer: Optimizer) -> Handle:
        """Add λ δ to the gradients of the parameters that this optimizer holds, before each of its steps."""
        handle = super().attach(optimizer)
        groups = group_of(unwrapped(optimizer), list(self._parameters.values()))
        self._stepped = [i for i, group in enumerate(groups) if group is not None]
        return handle

    @torch.no_grad()
    def before_step(self, optimizer: Optimizer | None = None) -> None:
        """∇ <- ∇ + λ δ, when called by the optimizer; a loop that calls it by hand has :meth:`penalty` instead."""
        if optimizer is None or not self.coefficient:
            return
        parameters = list(self._parameters.values())
        held = [parameters[i] for i in self._stepped]
        differences = self.differences(self._stepped)
        scale = getattr(optimizer, "grad_scale", None)  # a fused optimizer under GradScaler unscales later, in its step
        if scale is not None:
            differences = list(torch._foreach_mul(differences, scale.to(differences[0].device)))
        torch._foreach_add_([_gradient(p) for p in held], differences, alpha=self.coefficient)


def _gradient(p: nn.Parameter) -> Tensor:
    if p.grad is None:  # the loss does not depend on it, the penalty does
        p.grad = torch.zeros_like(p)
    return p.grad
