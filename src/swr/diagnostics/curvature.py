"""The curvature of the loss: the largest eigenvalue of its Hessian, by power iteration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from swr.diagnostics.gradients import LossFunction, loss_on
from swr.errors import ModelError

Vector = list[Tensor]
"""one tensor per parameter"""


def curvature(
    model: nn.Module,
    batch: tuple[Any, Any],
    loss_fn: LossFunction,
    *,
    iterations: int = 100,
    tolerance: float = 1e-3,
    seed: int = 0,
) -> float:
    """The largest eigenvalue of the Hessian ∇²L(θ) on a batch, in evaluation mode (batch norm with its running statistics).

        v <- H v / ‖H v‖,   λ = vᵀ H v

    The result is the largest eigenvalue with its sign, not the largest in magnitude. Power iteration finds the largest in
    magnitude. If that one is negative, or if the iteration does not converge because two of opposite sign are equally large, it
    continues with H + mI, m that magnitude, whose eigenvalues are not negative.

    >>> value = curvature(model, (x, torch.tensor([0, 1])), nn.functional.cross_entropy)

    Args:
        model: any module with trainable parameters; it is left as it was.
        batch: inputs (a tensor, or a tuple of positional inputs) and targets.
        loss_fn: a function of outputs and targets that returns the mean loss.
        iterations: the maximum for each of the two parts; one iteration costs about two backward passes.
        tolerance: the bound on ‖H v − λ v‖ at which the iteration stops, relative to the largest magnitude.
        seed: the seed of the first v; torch's global random state is not used.

    Raises:
        ModelError: the model has no trainable parameter.
    """
    with loss_on(model, batch, loss_fn) as (loss, leaves):
        parameters = list(leaves.values())
        if not parameters:
            raise ModelError(f"{type(model).__name__} has no parameter that requires a gradient, so its loss has no curvature.")
        gradients = torch.autograd.grad(loss, parameters, create_graph=True, materialize_grads=True)
        if not any(g.requires_grad for g in gradients):
            return 0.0  # the loss is linear in every parameter

        def product(v: Vector) -> Vector:
            return list(torch.autograd.grad(gradients, parameters, v, retain_graph=True, materialize_grads=True))

        generator = torch.Generator().manual_seed(seed)
        start = [torch.randn(p.shape, generator=generator, dtype=torch.float64).to(p) for p in parameters]
        value, v, size, settled = _power(product, start, iterations, tolerance, 0.0)
        if settled and value >= 0:
            return value
        mixed = [a + b / _norm(start) for a, b in zip(v, start, strict=True)]  # v alone may miss the other end
        value, *_ = _power(product, mixed, iterations, tolerance, size)
        return value


def _power(
    product: Callable[[Vector], Vector], v: Vector, iterations: int, tolerance: float, shift: float
) -> tuple[float, Vector, float, bool]:
    """vᵀHv, v, ‖Hv‖ and whether v is an eigenvector, after power iteration with H + shift · I."""
    value = size = 0.0
    v = _unit(v)
    for _ in range(iterations):
        hv = product(v)
        value, size = _dot(v, hv), _norm(hv)
        residual = _norm([a - value * b for a, b in zip(hv, v, strict=True)])
        if residual <= tolerance * max(size, shift):
            return value, v, size, True
        v = _unit([a + shift * b for a, b in zip(hv, v, strict=True)])
    return value, v, size, False


def _dot(a: Sequence[Tensor], b: Sequence[Tensor]) -> float:
    return float(torch.stack([(x.double() * y.double()).sum() for x, y in zip(a, b, strict=True)]).sum())


def _norm(a: Sequence[Tensor]) -> float:
    return float(_dot(a, a) ** 0.5)


def _unit(a: Sequence[Tensor]) -> Vector:
    size = _norm(a)
    return [x / size for x in a] if size > 0 else list(a)
