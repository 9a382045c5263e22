"""UPGD: small steps for useful weights, noise for useless ones (Elsayed and Mahmood, 2024)."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from swr.checks import at_least_zero, fraction
from swr.errors import AttachError, OptionError
from swr.methods.base import Method, Turn, learnable, restore
from swr.methods.tools.penalty_gradients import held_by
from swr.methods.tools.tuning import along


def gates(utilities: list[Tensor], correction: float) -> list[Tensor]:
    """1 - φ of every entry: how far it may move.

        φ = sigmoid(û / max u),   û = u / correction,   the maximum over all tensors

    >>> gates([torch.tensor([1.0, 0.5])], 1.0)
    [tensor([0.2689, 0.3775])]
    """
    top = torch.stack([u.max() for u in utilities]).max()
    scaled = torch._foreach_div(utilities, -correction * top)
    for one in scaled:
        one.nan_to_num_(nan=0.0)  # 0 / 0: before any gradient all are equally useful
    return list(torch._foreach_sigmoid(scaled))


class UPGD(Method):
    """Scale each entry's step, and the noise on it, by how little the entry is useful to the loss.

        u <- β u - (1 - β) g θ,   φ = sigmoid(û / max u),   û = u / (1 - β^t)
        θ <- (1 - η λ) θ + (1 - φ)(Δ - η ξ),   ξ ~ N(0, σ²)

    with η the learning rate and Δ the step that the optimizer makes: -η g of SGD, which is the paper's rule, and that of
    Adam gives the authors' AdaptiveUPGD. For θ = (2, -1), g = (-0.5, 0.5), β = 0, σ = λ = 0 and SGD with η = 0.1:
    u = (1, 0.5), φ = (0.731, 0.623), θ <- (2.0134, -1.0189).

    >>> method = UPGD(model, decay=0.999, noise=1e-3)
    >>> handle = method.attach(optimizer)

    When:
        Around every step. An entry of no utility moves half a step.

    Touches:
        All learnable parameters that have a gradient. Running statistics and the optimizer's state are its own.

    Keeps:
        u, once more the size of the model, and t; within a step a copy of θ.

    Args:
        decay: β in [0, 1), of the utility's average.
        noise: σ, at least 0.
        weight_decay: λ, at least 0.
        protecting: False gates the noise only, and leaves Δ whole; without noise and decay nothing is done then.

    References:
        M. Elsayed, A. R. Mahmood, 2024, "Addressing Loss of Plasticity and Catastrophic Forgetting in Continual Learning",
        ICLR; the authors' code, core/optim/weight_upgd/first_order.py and core/run/rl/adaupgd.py: their first-order, global
        form. As there, the maximum is that of u before the correction, so that in the first 1/(1 - β) steps φ is near 0 or 1
        for most entries, and if every u is negative the order is reversed. Their agents double the learning rate, for 1 - φ(0)
        = 1/2: the optimizer's to set.
    """

    name = "upgd"
    title = "UPGD"
    tuning = along("noise", 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
    owns = frozenset({"how long an update is"})
    turn: ClassVar[Turn] = "first"
    symbols = {"decay": "β", "noise": "σ", "weight_decay": "λ"}  # noqa: RUF012

    def __init__(
        self,
        model: nn.Module,
        example_inputs: Any = None,
        *,
        decay: float = 0.999,
        noise: float = 1e-3,
        weight_decay: float = 0.0,
        protecting: bool = True,
        seed: int = 0,
    ) -> None:
        super().__init__(model, example_inputs, seed=seed)
        self.decay = fraction(decay, "decay β")
        if self.decay == 1:
            raise OptionError("decay β must be below 1, found 1: the utility would never change.")
        self.noise = at_least_zero(noise, "noise σ")
        self.weight_decay = at_least_zero(weight_decay, "weight_decay λ")
        self.protecting = protecting
        self._parameters = {name: p for name, p in learnable(model).items() if p.numel()}
        self._utility = {name: torch.zeros_like(p) for name, p in self._parameters.items()}
        self._time = 0
        self._moving: list[tuple[Tensor, Tensor, Tensor, float]] = []
        """between the halves of a step: parameter, its value, utility, learning rate"""

    @torch.no_grad()
    def before_step(self, optimizer: Optimizer | None = None) -> None:
        """Update the utilities and remember θ.

        Args:
            optimizer: the one whose step follows; by default the one it is attached to.
        """
        optimizer = self.optimizer if optimizer is None else optimizer
        if optimizer is None:
            raise AttachError(
                "UPGD scales its noise by the learning rate: attach the optimizer, or call before_step(optimizer)."
            )
        rates = {id(p): float(group["lr"]) for group in optimizer.param_groups for p in group["params"]}
        held = set(held_by(optimizer, list(self._parameters.values())))
        named = [(name, p) for name, p in self._parameters.items() if p.grad is not None and p in held]
        self._moving = []
        if not named:
            return
        parameters: list[Tensor] = [p for _, p in named]
        utilities = [self._utility[name] for name, _ in named]
        products = list(torch._foreach_mul([p.grad for p in parameters if p.grad is not None], parameters))
        scale, skipped = getattr(optimizer, "grad_scale", None), getattr(optimizer, "found_inf", None)
        if scale is not None:  # a fused optimizer under GradScaler unscales later, in its step
            torch._foreach_div_(products, scale.to(products[0].device))
        torch._foreach_neg_(products)
        if skipped is not None:
            products = [
                torch.where(skipped.to(u.device) > 0, u, product) for u, product in zip(utilities, products, strict=True)
            ]
        torch._foreach_lerp_(utilities, products, 1 - self.decay)
        self._time += 1
        old = torch._foreach_clone(parameters)
        self._moving = [(p, o, u, rates[id(p)]) for p, o, u in zip(parameters, old, utilities, strict=True)]

    def after_step(self, optimizer: Optimizer) -> None:
        """Gate the step that the optimizer has made."""
        self._gate(getattr(optimizer, "found_inf", None))

    def step(self) -> None:
        """Gate the step that the optimizer has made since :meth:`before_step`."""
        self._gate(None)

    @torch.no_grad()
    def _gate(self, skipped: Tensor | None) -> None:
        if not self._moving:
            return
        parameters, old, utilities, rates = map(list, zip(*self._moving, strict=True))
        self._moving = []
        free = gates(utilities, 1 - self.decay**self._time)
        if self.protecting:
            steps = torch._foreach_mul(torch._foreach_sub(parameters, old), free)
            torch._foreach_copy_(parameters, torch._foreach_add(old, steps))
        made = 1.0 if skipped is None else (skipped == 0).to(old[0])  # 0 when the optimizer made no step
        if self.noise:
            drawn = torch._foreach_mul(self._drawn(parameters), free)
            torch._foreach_mul_(drawn, [-rate for rate in rates])
            torch._foreach_add_(parameters, torch._foreach_mul(drawn, made))
        if self.weight_decay:
            decayed = torch._foreach_mul(old, [-rate * self.weight_decay for rate in rates])
            torch._foreach_add_(parameters, torch._foreach_mul(decayed, made))

    def _drawn(self, parameters: list[Tensor]) -> list[Tensor]:
        """ξ, drawn on the CPU whatever the device, so that the numbers are the same everywhere."""
        flat = torch.randn(sum(p.numel() for p in parameters), generator=self.generator).mul_(self.noise)
        parts = flat.split([p.numel() for p in parameters])
        return [part.view(p.shape).to(p, non_blocking=True) for part, p in zip(parts, parameters, strict=True)]

    def state(self) -> dict[str, Any]:
        """What has to be saved."""
        return {"utility": dict(self._utility), "time": self._time}

    def load_state(self, state: dict[str, Any]) -> None:
        """The reverse of :meth:`state`."""
        restore(self._utility, state["utility"])
        self._time = int(state["time"])
