"""Spectral norms of linear operators by power iteration: a matrix, a convolution on its real input, a pooling."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from swr.errors import OptionError

Operator = Callable[[Tensor], Tensor]


def spectral_norm(
    operator: Operator | Tensor,
    example: Tensor | None = None,
    *,
    iterations: int = 1000,
    tolerance: float = 1e-4,
    seed: int = 0,
) -> float:
    """‖A‖_σ = max ‖A x‖ / ‖x‖ of a linear operator, by power iteration on AᵀA.

        u = A v,   v <- Aᵀ u / ‖Aᵀ u‖,   ‖A‖_σ = ‖u‖

    Aᵀ is the operator's own derivative (for a convolution the transposed one, with the same stride, padding, dilation and
    groups), so no matrix is built. The estimate converges from below. The iteration stops when v is a singular vector up to the
    tolerance; the relative error is then at most half of the tolerance, and usually its square.

    >>> round(spectral_norm(torch.diag(torch.tensor([3.0, 1.0]))), 4)
    3.0
    >>> ones = torch.ones(1, 1, 3, 3)
    >>> round(spectral_norm(lambda x: torch.conv2d(x, ones, stride=3), torch.zeros(1, 1, 9, 9)), 4)
    3.0

    Args:
        operator: a matrix, or a linear function of one tensor (a layer without its bias).
        example: an input of the function, for its shape, precision and device.
        iterations: the maximum number of iterations.
        tolerance: the bound on ‖AᵀA v − ‖u‖² v‖ relative to ‖u‖² at which the iteration stops.
        seed: the seed of the first v; torch's global random state is not used.

    Raises:
        OptionError: the tensor is not a matrix, or a function was given without an example.
    """
    if isinstance(operator, Tensor):
        if operator.ndim != 2:
            raise OptionError(
                f"a spectral norm needs a matrix or a linear function, found a tensor of {operator.ndim} axes; "
                "pass a convolution as a function of its input."
            )
        matrix = operator.detach().to(torch.promote_types(operator.dtype, torch.float32))
        return spectral_norm(matrix.mv, matrix[0], iterations=iterations, tolerance=tolerance, seed=seed)
    if example is None:
        raise OptionError("the spectral norm of a function needs an example of its input, for the shape; pass example=.")
    v = torch.randn(example.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    v = (v / v.norm()).to(example.device, example.dtype)
    estimate = 0.0
    for _ in range(iterations):
        u, back = gram(operator, v)
        square = float(u.double().square().sum())
        estimate = math.sqrt(square)
        if not float(torch.linalg.vector_norm(back - square * v)) > tolerance * square:
            break
        v = back / torch.linalg.vector_norm(back)
    return estimate


def gram(operator: Operator, v: Tensor) -> tuple[Tensor, Tensor]:
    """A v and AᵀA v: Aᵀ is the derivative of the operator.

    >>> gram(lambda x: 2 * x, torch.ones(1))
    (tensor([2.]), tensor([4.]))

    Args:
        operator: a linear function.
        v: its input.

    Returns:
        A v and AᵀA v.
    """
    v = v.detach().requires_grad_()
    with torch.enable_grad():
        u = operator(v)
    return u.detach(), torch.autograd.grad(u, v, u.detach())[0]
