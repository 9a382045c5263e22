"""Balancedness: how far a network's l_{p,q} norm is above the least that its function needs.

A hidden unit i with a homogeneous activation may be scaled by any a_i > 0 without changing the function,

    W_ij <- a_i W_ij,   b_i <- a_i b_i   (incoming),        W_ki <- W_ki / a_i   (outgoing),

and a channel of a convolution likewise, through pooling and flattening. With s_i = log a_i, and s = 0 for inputs and outputs,

    N(s) = ‖W‖_{p,q}^q = Σ_i (Σ_j |W_ij|^p e^{p (s_i - s_j)})^{q/p}.

**Convexity.** The logarithm of each term is q/p times a log-sum-exp of linear functions of s, so it is convex. log N is the
log-sum-exp of these, and convex because log-sum-exp is convex and grows with each argument. Every stationary point is a
minimum.

**Updates** (Saul, 2023). With r_i = Σ_j |W_ij|^p, π_ij = |W_ij|^p r_i^{q/p - 1} (so that N = Σ π_ij) and m = max(p, q),

    A_i = Σ_j π_ij   (incoming),     B_i = Σ_k π_ki   (outgoing),     a_i = (B_i / A_i)^{1/2m}

for all units of one layer at once, layer after layer, until nothing changes.

**Descent.** Let d_ij = s_i - s_j for a change s of the present weights. Then

    (Σ_j |W_ij|^p e^{p d_ij})^{q/p}  ≤  Σ_j π_ij (1 - q/m + (q/m) e^{m d_ij}),

for q ≥ p by Jensen (x^{q/p} is convex, and the shares |W_ij|^p / r_i sum to one), for q < p because the concave x^{q/p} lies
below its tangent at r_i. Both are equalities at s = 0. While the neighbours of a layer do not change, d_ij is s_i for incoming
weights and -s_i for outgoing ones, so that

    N(s)  ≤  constant + (q/m) Σ_i (A_i e^{m s_i} + B_i e^{-m s_i}),

which e^{2m s_i} = B_i / A_i minimises. Hence N(s) ≤ N(0), and N(s) < N(0) unless A_i = B_i for all i. As ∂N/∂s_i =
q (A_i - B_i), the updates stop at the minimum and nowhere else. For p = q the bound is N itself, and each update the
exact minimum over its layer. (Saul moves all layers at once: e^{m (s_i - s_j)} ≤ (e^{2m s_i} + e^{-2m s_j}) / 2 separates
them and gives the exponent 1/4m, see :mod:`swr.diagnostics.balancing.balancing_reference`.)

**Depth.** The updates alone are slow for a common factor of a whole layer, which has to spread from layer to layer (400
rounds for sixteen layers). But the minimum over such factors is known: they multiply the layers' parts N_l of N by numbers
whose product is 1, so N is least when all N_l are equal. With this step before each round, about ten rounds are enough, and
N still never grows.

**Where there is a minimum.** If every hidden unit lies on a path of non-zero weights from an input to an output, some weight of
the path grows without bound whenever s does, so the minimum is attained. A unit without incoming (outgoing) weights can be
scaled up (down) without end, and its weights do not count in the limit: the infimum is the minimum of the network without such
units. That is what is computed.

References:
    L. K. Saul: Weight-balancing fixes and flows for deep learning, 2023.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from swr.diagnostics.balancing.entrywise import check_orders, layers_of, norm_of

TOLERANCE = 1e-7
"""the largest remaining abs(log(B_i / A_i)); the relative error of the norm is about its square"""


def balancedness(model: nn.Module, p: float = 2, q: float = 2) -> float:
    """‖W‖_{p,q} over its minimum among all networks that differ by a rescaling of hidden units only; 1 is balanced.

    It is never below 1. The authors' code of SWR plots the reciprocal, minimum over norm, which is never above 1.

    >>> net = nn.Sequential(nn.Linear(1, 1), nn.ReLU(), nn.Linear(1, 1))
    >>> net[0].weight.data.fill_(4.0), net[2].weight.data.fill_(1.0)
    (tensor([[4.]]), tensor([[1.]]))
    >>> round(balancedness(net, 1, 1), 6)  # 4 + 1 against 2 + 2
    1.25

    Args:
        model: an ``nn.Sequential`` of linear layers or convolutions with homogeneous modules between them.
        p: the order of the sum over the inputs of a unit, at least 1.
        q: the order of the sum over the units, at least 1.

    Returns:
        The ratio; infinity if no path of weights leads from the inputs to the outputs, where the infimum is 0; NaN if a
        weight is not finite.

    Raises:
        ModelError: the model is not such a chain.
        OptionError: p or q is below 1.
    """
    check_orders(p, q)
    masses = [layer.masses(p) for layer in layers_of(model)]
    norm, least = norm_of(masses, p, q), _least(masses, p, q)
    if not math.isfinite(norm):
        return math.nan
    if not least:
        return math.inf if norm else 1.0
    return max(1.0, norm / least)


def minimal_norm(model: nn.Module, p: float = 2, q: float = 2) -> float:
    """The infimum of ‖W‖_{p,q} over all rescalings of hidden units that keep the function.

    Args:
        model: as for :func:`balancedness`.
        p: as for :func:`balancedness`.
        q: as for :func:`balancedness`.
    """
    check_orders(p, q)
    return _least([layer.masses(p) for layer in layers_of(model)], p, q)


@torch.no_grad()
def rebalance(model: nn.Module, p: float = 2, q: float = 2) -> None:
    """Rescale the hidden units in place so that ‖W‖_{p,q} is minimal; the function does not change.

    >>> net = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    >>> x = torch.randn(5, 4)
    >>> before = net(x)
    >>> rebalance(net)
    >>> torch.allclose(net(x), before, atol=1e-6), round(balancedness(net), 6)
    (True, 1.0)

    Units without incoming or without outgoing weights are not changed.

    Args:
        model: as for :func:`balancedness`.
        p: as for :func:`balancedness`.
        q: as for :func:`balancedness`.
    """
    check_orders(p, q)
    layers = layers_of(model)
    scales = _minimise(_connected([layer.masses(p) for layer in layers]), p, q)
    factors = [torch.ones(layers[0].before, dtype=torch.float64), *(x.pow(1 / p) for x in scales[1:])]
    for layer, (before, units) in zip(layers, pairwise(factors), strict=True):
        layer.scale(units, before)


def _connected(masses: Sequence[Tensor]) -> list[Tensor]:
    """The masses, with zeros for units that are on no path from an input to an output."""
    from_inputs, to_outputs = [torch.ones(1, dtype=torch.bool)], [torch.ones(len(masses[-1]), dtype=torch.bool)]
    for mass in masses:
        from_inputs.append((mass[:, from_inputs[-1]] > 0).any(1))
    for mass in reversed(masses):
        to_outputs.append((mass[to_outputs[-1]] > 0).any(0))
    alive = [a & b for a, b in zip(from_inputs, reversed(to_outputs), strict=True)]
    return [mass * after.unsqueeze(1) * before for mass, (before, after) in zip(masses, pairwise(alive), strict=True)]


def _minimise(masses: Sequence[Tensor], p: float, q: float) -> list[Tensor]:
    """a^p of all units, inputs and outputs (where it is 1) included, at the minimum."""
    scales = [torch.ones(masses[0].shape[1], dtype=torch.float64)]
    scales += [torch.ones(len(mass), dtype=torch.float64) for mass in masses]
    left = math.inf
    while left > TOLERANCE:
        left = 0.0
        _equalise(masses, scales, p, q)
        for layer in range(1, len(masses)):
            incoming = _rows(masses[layer - 1], scales[layer - 1], scales[layer]).pow(q / p)
            rows = _rows(masses[layer], scales[layer], scales[layer + 1])
            outgoing = (torch.where(rows > 0, rows.pow(q / p - 1), 0.0) * scales[layer + 1]) @ masses[layer] / scales[layer]
            imbalance = torch.where(incoming > 0, (outgoing / incoming).log(), 0.0)
            scales[layer] = scales[layer] * (imbalance * (p / (2 * max(p, q)))).exp()
            left = max(left, float(imbalance.abs().max()))
    return scales


def _equalise(masses: Sequence[Tensor], scales: list[Tensor], p: float, q: float) -> None:
    """The minimum over common factors of whole layers, in place: Π_l N_l does not depend on them, so all N_l become equal."""
    logs = torch.stack(_powers(masses, scales, p, q)).log()
    if logs.isfinite().all():
        for layer, shift in enumerate((logs.mean() - logs).cumsum(0)[:-1], start=1):
            scales[layer] = scales[layer] * (shift * (p / q)).exp()


def _least(masses: Sequence[Tensor], p: float, q: float) -> float:
    masses = _connected(masses)
    scales = _minimise(masses, p, q)
    return math.pow(sum(float(power) for power in _powers(masses, scales, p, q)), 1 / q)


def _powers(masses: Sequence[Tensor], scales: Sequence[Tensor], p: float, q: float) -> list[Tensor]:
    """N_l: every layer's part of ‖W‖_{p,q}^q of the rescaled network."""
    return [_rows(mass, *pair).pow(q / p).sum() for mass, pair in zip(masses, pairwise(scales), strict=True)]


def _rows(mass: Tensor, before: Tensor, units: Tensor) -> Tensor:
    """r_i = Σ_j |W_ij|^p (a_i / a_j)^p."""
    return mass @ before.reciprocal() * units
