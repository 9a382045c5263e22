"""Shrink & Perturb: towards the saved initial parameters, or shrink and add fresh noise (Ash and Adams, 2020)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from swr.checks import at_least_zero, fraction
from swr.methods.base import Batches, LossFunction, Method, learnable, restore, saved
from swr.methods.tools.fresh import Initialiser, own_initialiser, redraw
from swr.methods.tools.layers import NORMALISATION
from swr.methods.tools.optimizer_state import Policy, check_policy, forget
from swr.methods.tools.tuning import along


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

    name = "shrink-perturb"
    title = "S&P"
    only_at_new_task = True
    tuning = along("coefficient", 0.1, 0.2, 0.4, 0.6, 0.8)
    owns = frozenset({"all weights at a new task"})
    symbols = {"coefficient": "λ"}  # noqa: RUF012

    def __init__(self, model: nn.Module, example_inputs: Any = None, *, coefficient: float, seed: int = 0) -> None:
        super().__init__(model, example_inputs, seed=seed)
        self.coefficient = fraction(coefficient, "coefficient λ")
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

    def state(self) -> dict[str, Any]:
        """What has to be saved."""
        return {"initial": dict(self._initial)}

    def load_state(self, state: dict[str, Any]) -> None:
        """The reverse of :meth:`state`."""
        restore(self._initial, state["initial"])


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
        optimizer_state: what the optimizer forgets of the parameters, a policy of :mod:`swr.methods.tools.optimizer_state`.

    References:
        J. Ash, R. Adams, 2020, "On Warm-Starting Neural Network Training", NeurIPS; the authors' code, run.py.
    """

    name = "shrink-perturb-fresh"
    title = "S&P, fresh noise"
    only_at_new_task = True
    tuning = along("retain", 0.2, 0.4, 0.6, 0.8, 0.9)
    owns = frozenset({"all weights at a new task"})
    symbols = {"retain": "λ", "noise": "p"}  # noqa: RUF012

    def __init__(
        self,
        model: nn.Module,
        example_inputs: Any = None,
        *,
        retain: float = 0.4,
        noise: float = 0.1,
        initialise: Initialiser = own_initialiser,
        optimizer_state: Policy = "clear_all",
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
