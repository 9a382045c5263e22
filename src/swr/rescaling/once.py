"""Theorem 1 on a plan: rescale a network once, by hand."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import nn

from swr.algebra.apply import multiply
from swr.algebra.plan import ScalePlan
from swr.errors import OptionError, PlanError


def rescale(model: nn.Module, plan: ScalePlan, scalers: Mapping[str, float]) -> float:
    """Scale a network's weights in place so that its function is only multiplied by a constant (Theorem 1).

        θ = P log c,   p <- exp(θ_p) p for every parameter,   f_θ'(x) = C f_θ(x)

    Free weights get exactly the scaler asked for; coupled ones the nearest that the network allows; held ones stay.

    >>> from swr import analyze
    >>> net = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    >>> x = torch.randn(5, 4)
    >>> before = net(x)
    >>> constant = rescale(net, analyze(net, x), {"0.weight": 0.5, "2.weight": 4.0})
    >>> constant, torch.allclose(net(x), constant * before)
    (2.0, True)

    Args:
        model: the model the plan was made from.
        plan: of :func:`swr.analyze` or :func:`swr.chain`.
        scalers: positive factors by weight name; weights that are not named are asked to stay.

    Returns:
        The constant C.
    """
    plan.check(model)
    if unknown := [name for name in scalers if name not in plan.weights]:
        raise PlanError(f"{unknown[0]!r} is not a weight of the plan; its weights are {', '.join(plan.weights)}.")
    for name, c in scalers.items():
        if not (math.isfinite(c) and c > 0):
            raise OptionError(f"the scaler of {name} must be positive and finite, found {c!r}.")
    targets = torch.tensor([math.log(scalers.get(name, 1.0)) for name in plan.weights], dtype=torch.float64)
    names = plan.scaled
    multiply(model, names, (plan.matrix(names) @ targets).exp())
    return float((plan.output_row @ targets).exp())
