"""Algorithm 1 as printed in the paper, in float64: a plain loop over a chain of layers that can be compared with the paper.

It is the reference for networks without normalisation layers. With them, the printed rule is off by one: the shift of the final
normalisation layer gets c_k c_{k−1}. But the output of a normalisation layer does not depend on the scale of its input, so only
c_k keeps the function proportional. :class:`swr.SoftWeightRescaling` uses c_k.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

Layer = tuple[Tensor, Tensor | None]
"""(W_l, b_l); b_l is None if the layer has no bias"""


def layers(model: nn.Module) -> tuple[list[Layer], int]:
    """The layers of a chain in registration order, and k.

    Returns:
        (W_l, b_l) of every layer; and k, the index of the final normalisation layer counted from 1, or 0 without one.
    """
    found: list[Layer] = []
    k = 0
    for module in model.modules():
        weight = getattr(module, "weight", None)
        if isinstance(weight, nn.Parameter):
            found.append((weight, module.bias if isinstance(module.bias, Tensor) else None))
            if isinstance(module, nn.modules.batchnorm._BatchNorm | nn.LayerNorm | nn.GroupNorm):
                k = len(found)
    return found, k


def initial_norms(network: Sequence[Layer]) -> list[float]:
    """n_l^init = ‖W_l‖."""
    return [float(weight.detach().double().norm()) for weight, _ in network]


@torch.no_grad()
def soft_weight_rescaling(network: Sequence[Layer], n_init: Sequence[float], coefficient: Sequence[float], k: int) -> float:
    """The inner loop of Algorithm 1, after one gradient update.

    Args:
        network: (W_l, b_l), first to last.
        n_init: n_l^init of each layer.
        coefficient: λ of each layer.
        k: the index of the final normalisation layer, counted from 1; 0 without one.

    Returns:
        The last cumulative scaler C.
    """
    cumulative = 1.0
    for index, ((weight, bias), n, lam) in enumerate(zip(network, n_init, coefficient, strict=True), start=1):
        norm = float(weight.double().norm())
        c = (lam * n + (1 - lam) * norm) / norm
        cumulative = c * cumulative if index >= k else c
        weight.mul_(c)
        if bias is not None:
            bias.mul_(cumulative)
    return cumulative


@torch.no_grad()
def budget(network: Sequence[Layer], limits: Sequence[float]) -> float:
    """The same loop with a budget in place of the pull: c_l = min(1, ρ n_l / ‖W_l‖); without normalisation layers.

    Args:
        network: (W_l, b_l), first to last.
        limits: ρ n_l of each layer.

    Returns:
        The last cumulative scaler C.
    """
    cumulative = 1.0
    for (weight, bias), limit in zip(network, limits, strict=True):
        c = min(1.0, limit / float(weight.double().norm()))
        cumulative *= c
        weight.mul_(c)
        if bias is not None:
            bias.mul_(cumulative)
    return cumulative
