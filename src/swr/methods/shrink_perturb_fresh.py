"""Shrink & Perturb as first published: towards a new draw, not the saved one (Ash and Adams, 2020)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from swr.methods.base import Batches, LossFunction, Method, learnable
from swr.methods.fresh import Initialiser, own_initialiser, redraw
from swr.methods.layers import NORMALISATION
from swr.methods.optimizer_state import check_policy, forget
from swr.methods.options import at_least_zero, fraction


class ShrinkPerturbFresh(Method):
    """Shrink all learnable parameters and add a part of a freshly drawn network, when the data changes.

        θ <- λ θ + p θ',   θ' a new draw each time

    A gain of a normalisation layer becomes λ γ + p, since it is drawn as 1. With λ = 0.4, p = 0.1, a parameter 2 and a
    draw 0.5: 0.4 · 2 + 0.1 · 0.5 = 0.85.

    >>> method = ShrinkPerturbFresh(model, retain=0.4, noise=0.1)
    >>> method.new_task()

    When:
        At a new task; not before the first, where the authors' loop shrinks the initial network too.

    Touches:
        All learnable parameters. The source puts the mixture into a new network with a new optimizer: running statistics and,
        by default, the optimizer's state are reset.

    Keeps:
        The random numbers only.

    Args:
        retain: λ in [0, 1].
        noise: p, at least 0; with λ = 1 and p = 0 nothing is done.
        initialise: re-initialises one layer; by default its own ``reset_parameters()``.
        optimizer_state: what the optimizer forgets of the parameters, a policy of :mod:`swr.methods.optimizer_state`.

    References:
        J. Ash, R. Adams, 2020, "On Warm-Starting Neural Network Training", NeurIPS; the authors' code, run.py.
    """

    title = "S&P, fresh noise"
    symbols = {"retain": "λ", "noise": "p"}  # noqa: RUF012

    def __init__(
        self,
        model: nn.Module,
        example_inputs: Any = None,
        *,
        retain: float = 0.4,
        noise: float = 0.1,
        initialise: Initialiser = own_initialiser,
        optimizer_state: str = "clear_all",
        seed: int = 0,
    ) -> None:
        super().__init__(model, example_inputs, seed=seed)
        self.retain = fraction(retain, "retain λ")
        self.noise = at_least_zero(noise, "noise p")
        self.initialise = initialise
        self.optimizer_state = check_policy(optimizer_state)
        self._parameters: list[Tensor] = list(learnable(model).values())
        self._layers = [module for module in model.modules() if isinstance(module, NORMALISATION) or _learns(module)]

    @torch.no_grad()
    def new_task(self, batches: Batches | None = None, loss_fn: LossFunction | None = None) -> None:
        """θ <- λ θ + p θ'."""
        if self.retain == 1 and self.noise == 0:
            return
        frozen = [p for layer in self._layers for p in layer.parameters(recurse=False) if not p.requires_grad]
        old, kept = torch._foreach_clone(self._parameters), [p.clone() for p in frozen]
        redraw(self._layers, self.generator, self.initialise)
        torch._foreach_mul_(self._parameters, self.noise)
        torch._foreach_add_(self._parameters, old, alpha=self.retain)
        for still, value in zip(frozen, kept, strict=True):
            still.copy_(value)
        for p in self._parameters:
            forget(self.optimizer, p, policy=self.optimizer_state)


def _learns(module: nn.Module) -> bool:
    return any(p.requires_grad for p in module.parameters(recurse=False))
