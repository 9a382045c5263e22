"""Theorem 1 on a plan: rescale a network once, by hand."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from swr.algebra.apply import multiply
from swr.algebra.blocks import parameter_of, tensor_of
from swr.algebra.plan import ScalePlan
from swr.errors import OptionError, PlanError
from swr.sharding import local


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
        scalers: positive factors by weight name; weights that are not named are asked to stay. The name of a parameter that is
            used in blocks stands for all of them.

    Returns:
        The constant C; NaN for a plan made with ``inhomogeneous="free"``, which promises none.
    """
    plan.check(model)
    asked = {name: scalers.get(name, scalers.get(parameter_of(name), 1.0)) for name in plan.weights}
    if unknown := [name for name in scalers if name not in plan.weights and name not in map(parameter_of, plan.weights)]:
        raise PlanError(f"{unknown[0]!r} is not a weight of the plan; its weights are {', '.join(plan.weights)}.")
    for name, c in scalers.items():
        if isinstance(c, bool) or not isinstance(c, int | float) or not (math.isfinite(c) and c > 0):
            raise OptionError(f"the scaler of {name} must be positive and finite, found {c!r}.")
    targets = torch.tensor([math.log(c) for c in asked.values()], dtype=torch.float64)
    names = plan.scaled
    factors = (plan.matrix(names) @ targets).exp()
    _refuse_overflow(model, names, factors)
    multiply(model, names, factors)
    return math.nan if plan.inhomogeneous == "free" else float((plan.output_row @ targets).exp())


@torch.no_grad()
def _refuse_overflow(model: nn.Module, names: Sequence[str], factors: Tensor) -> None:
    """Raise an OptionError if the largest entry of a tensor would leave the range of its precision."""
    tensors: dict[str, Tensor] = {**dict(model.named_buffers()), **dict(model.named_parameters())}
    for name, factor in zip(names, factors.tolist(), strict=True):
        tensor = local(tensor_of(name, tensors))
        if tensor.is_meta or not tensor.numel():
            continue
        range_, largest = torch.finfo(tensor.dtype), float(tensor.abs().max())
        if largest and not range_.tiny <= largest * factor <= range_.max:
            kind = str(tensor.dtype).removeprefix("torch.")
            raise OptionError(
                f"{name} would be multiplied by {factor:g}, and its largest entry {largest:g} then leave the range of "
                f"{kind}: choose a scaler nearer to 1."
            )
