"""The balanced norms of a network: those with the least sum of squares among all rescalings that keep its function.

    minimise  Σ_w ‖W_w‖² exp(2 θ_w)   over   { θ : A θ = 0, C = 1 }

The sum is convex in θ. On a chain of layers the minimum has equal norms, the geometric mean of the present ones: where gradient
descent on a homogeneous loss with weight decay would settle. Weights that the network lets shrink for nothing, because a
normalisation layer forgets their scale, have no minimum: they keep the norm they have.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from swr.algebra.plan import ScalePlan

_RIDGES = 1e-6, 1e-12  # give weights that could shrink for ever a finite minimum, which falls by about 7 between the two
_FORGOTTEN = -1.0  # a minimum that falls by more than this is due to the ridge alone
_LONGEST = 1.0  # of one Newton step in any θ
_STEPS = 500
_DAMPING = 1e-14  # of a Newton step, relative to the largest square: the matrix can be singular to rounding
_CONVERGED = 1e-12


def balanced(plan: ScalePlan, norms: Mapping[str, float]) -> dict[str, float]:
    """The norms of least sum of squares that the same function can have.

    >>> from torch import nn
    >>> from swr import analyze
    >>> net = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    >>> plan = analyze(net, torch.randn(1, 4))
    >>> balanced(plan, {"0.weight": 8.0, "2.weight": 2.0})
    {'0.weight': 4.0, '2.weight': 4.0}

    Args:
        plan: of the network.
        norms: ‖W_w‖ of its weights; one that is missing, zero or not finite stays as it is and balances nothing.

    Returns:
        The balanced norm of every weight in ``norms``.
    """
    kept = plan.keeping_output()
    usable = [0 < norms.get(name, 0.0) < math.inf for name in kept.weights]
    logs = [math.log(norms[name]) if ok else 0.0 for name, ok in zip(kept.weights, usable, strict=True)]
    centred = torch.tensor(logs, dtype=torch.float64) - sum(logs) / max(1, sum(usable))
    fixed = ~torch.tensor(usable, dtype=torch.bool)
    every = _directions(kept.solution.projection, fixed)
    coarse, fine = (_least(centred, every, ridge) for ridge in _RIDGES)
    theta = _least(centred, _directions(kept.solution.projection, fixed | (fine - coarse < _FORGOTTEN)), 0.0)
    found = dict(zip(kept.weights, theta.tolist(), strict=True))
    return {name: _tidy(norm, math.exp(found.get(name, 0.0))) for name, norm in norms.items()}


def _directions(projection: Tensor, fixed: Tensor) -> Tensor:
    """An orthonormal basis of the admissible θ that are 0 where ``fixed`` says so, one column each."""
    forbidden = torch.eye(len(projection), dtype=torch.float64) - projection + torch.diag(fixed.to(torch.float64))
    values, vectors = torch.linalg.eigh(forbidden)
    kept: Tensor = vectors[:, values < 1e-9]
    return kept


def _least(logs: Tensor, basis: Tensor, ridge: float) -> Tensor:
    """θ = basis z with the least Σ exp(2 (log n + θ)), by Newton's method with steps of limited length."""
    z = -basis.T @ logs  # equal norms as far as possible: the minimum itself in a chain
    for _ in range(_STEPS):
        squares = torch.exp(2 * (logs + basis @ z))
        gradient = 2 * (basis.T @ squares) + 2 * ridge * z
        hessian = 4 * basis.T @ (squares[:, None] * basis)
        damping = 2 * ridge + _DAMPING * float(squares.max()) if len(z) else 0.0
        step = torch.linalg.solve(hessian + damping * torch.eye(len(z), dtype=torch.float64), -gradient)
        longest = float((basis @ step).abs().max()) if len(z) else 0.0
        z = z + step * min(1.0, _LONGEST / longest if longest else 1.0)
        if longest < _CONVERGED:
            break
    return basis @ z


def _tidy(norm: float, factor: float) -> float:
    """norm x factor, without the last digits that Newton's method leaves."""
    return norm if abs(factor - 1) < 1e-12 else float(f"{norm * factor:.12g}")
