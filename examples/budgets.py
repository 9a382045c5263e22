"""Other ways to hold a growth budget, to compare with ``swr-budget``: what ``docs/growth.md`` reports on.

    swr run permuted-pixels --columns digits-mlp --methods examples.budgets:InitialBudget --hyper growth=1.5

Run it in the project's folder.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import swr
from swr.methods import SWRBudget
from swr.methods.base import Method
from swr.norms import frobenius_norms
from swr.rescaling.balanced import balanced


class InitialBudget(SWRBudget):
    """A budget in units of each layer's own initial norm: c_l = min(1, ρ n_l / ‖W_l‖) with n_l = ‖W_l‖ at the start."""

    title = "budget, initial anchors"

    def __init__(self, model: nn.Module, example_inputs: Any = None, *, growth: float = 1.5, seed: int = 0) -> None:
        super().__init__(model, example_inputs, growth=growth, anchors="initial", seed=seed)


class MovedBudget(SWRBudget):
    """A balanced budget on a network that is moved to its balanced norms at once, which does not change its function."""

    title = "budget, moved at once"

    def __init__(self, model: nn.Module, example_inputs: Any = None, *, growth: float = 1.5, seed: int = 0) -> None:
        plan = swr.analyze(model, example_inputs).keeping_output()
        norms = _norms(model, plan)
        target = balanced(plan, norms)
        swr.rescale(model, plan, {name: target[name] / norms[name] for name in norms})
        super().__init__(model, example_inputs, growth=growth, anchors="initial", seed=seed)


class PassBudget(SWRBudget):
    """A budget that takes GELU, SiLU and tanh for homogeneous, which is approximate."""

    title = "budget, pass"

    def __init__(self, model: nn.Module, example_inputs: Any = None, *, growth: float = 1.5, seed: int = 0) -> None:
        super().__init__(model, example_inputs, growth=growth, inhomogeneous="pass", seed=seed)


class FreeBudget(SWRBudget):
    """A budget for every weight on its own: what couples weights is left out, and the function changes a little."""

    title = "budget, free"

    def __init__(self, model: nn.Module, example_inputs: Any = None, *, growth: float = 1.5, seed: int = 0) -> None:
        super().__init__(model, example_inputs, growth=growth, inhomogeneous="free", seed=seed)


class AutoBudget(Method):
    """Algorithm 1 with the λ that lets each norm settle at ρ times its balanced anchor.

    λ_l = g_l / ((ρ − 1) n_l),   g_l = the growth of ‖W_l‖ in a step of the optimizer, averaged over about T steps
    """

    title = "budget, automatic λ"

    def __init__(
        self,
        model: nn.Module,
        example_inputs: Any = None,
        *,
        growth: float = 1.5,
        horizon: float = 1000,
        seed: int = 0,
    ) -> None:
        super().__init__(model, example_inputs, seed=seed)
        self.growth, self.horizon = growth, horizon
        self.plan = swr.analyze(model, example_inputs)
        self.last = _norms(model, self.plan)
        self.anchors = balanced(self.plan, self.last)
        self.rates = dict.fromkeys(self.anchors, 0.0)
        self.steps = 0

    @torch.no_grad()
    def step(self) -> None:
        self.steps += 1
        weight = max(1 / self.horizon, 1 / self.steps)  # a plain mean until T steps have been seen
        scalers = {}
        for name, norm in _norms(self.model, self.plan).items():
            self.rates[name] += weight * (norm - self.last[name] - self.rates[name])
            anchor = self.anchors[name]
            strength = min(1.0, max(0.0, self.rates[name] / ((self.growth - 1) * anchor)))
            scalers[name] = (strength * anchor + (1 - strength) * norm) / norm
        swr.rescale(self.model, self.plan, scalers)
        self.last = _norms(self.model, self.plan)

    def state(self) -> dict[str, Any]:
        return {"anchors": self.anchors, "rates": self.rates, "last": self.last, "steps": self.steps}

    def load_state(self, state: dict[str, Any]) -> None:
        self.anchors, self.rates, self.last = (dict(state[key]) for key in ("anchors", "rates", "last"))
        self.steps = int(state["steps"])


def _norms(model: nn.Module, plan: swr.ScalePlan) -> dict[str, float]:
    parameters = dict(model.named_parameters())
    found = frobenius_norms([parameters[name].detach() for name in plan.weights])
    return dict(zip(plan.weights, found.tolist(), strict=True))
