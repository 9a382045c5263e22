"""FIRE: replace every weight by the nearest isometry (Han et al., 2026)."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Any

import torch
from torch import Tensor, nn

from swr.checks import whole
from swr.errors import ModelError
from swr.methods.base import Batches, LossFunction, Method
from swr.methods.tools.fresh import inside
from swr.methods.tools.layers import Affine, affine_layers, wide
from swr.methods.tools.optimizer_state import Policy, check_policy, forget


def isometry(matrices: Tensor, iterations: int | None = 10) -> Tensor:
    """The polar factor of a matrix, or of each of a batch: the nearest one with orthonormal columns (or rows).

        X = W / ‖W‖;   X <- 3/2 X - 1/2 X XᵀX,   ten times

    Singular values below about 0.05 ‖W‖ do not get to 1 in ten iterations (0.03: 0.968, 0.01: 0.529).

    >>> isometry(torch.tensor([[0.0, -2.0], [1.0, 0.0]]))
    tensor([[ 0., -1.],
            [ 1.,  0.]])

    Args:
        iterations: of Newton and Schulz; None: exactly, by a singular value decomposition. Zeros stay zeros.
    """
    norms = torch.linalg.matrix_norm(matrices, keepdim=True)
    if iterations is None:
        u, _, vh = torch.linalg.svd(matrices, full_matrices=False)
        return torch.where(norms > 0, u @ vh, 0.0)
    tall = matrices.shape[-2] >= matrices.shape[-1]
    x = matrices if tall else matrices.mT
    x = x / norms.clamp_min(torch.finfo(x.dtype).tiny)
    for _ in range(iterations):
        x = 1.5 * x - 0.5 * x @ (x.mT @ x)
    factor: Tensor = x if tall else x.mT
    return factor


def isometric(layer: Affine, iterations: int | None = 10) -> Tensor:
    """The new weight of a layer: its isometry times √(out/in), of a convolution tap by tap and divided by their number."""
    blocks = wide(layer.blocks().detach())
    out, into = blocks.shape[1:3]
    taps = blocks.flatten(3) if blocks.ndim > 3 else blocks.unsqueeze(-1)
    new = isometry(taps.permute(0, 3, 1, 2), iterations) * (sqrt(out / into) / taps.shape[-1])
    return new.permute(0, 2, 3, 1).reshape(blocks.shape)


class Fire(Method):
    """Replace every weight matrix by the nearest isometry, which is far from the old one only where it has to be.

        min ‖W̃ - W‖²   so that W̃ᵀW̃ = I;   W <- √(out/in) W̃,   a k x k convolution tap by tap, divided by k²

    >>> method = Fire(model)
    >>> method.new_task()

    When:
        At a new task.

    Touches:
        Weights of convolutions and fully connected layers, the head included; groups of a convolution are matrices of their
        own. A weight, or a tap, of zeros stays zero. Biases, gains, shifts and running statistics stay.

    Keeps:
        Nothing.

    Args:
        iterations: of Newton and Schulz; None: exactly, which also lifts small singular values.
        layers: names of modules, in place of all; the source takes the query and key projections of a vision transformer.
        optimizer_state: what the optimizer forgets of the weights, a policy of :mod:`swr.methods.tools.optimizer_state`;
            ``"clear_all"`` is nearest to the authors' new optimizer, and was worse on streams (docs/leaderboard.md).

    References:
        I. Han et al., 2026, "FIRE: Frobenius-Isometry Reinitialization for Balancing the Stability-Plasticity Tradeoff", ICLR;
        the authors' code, vision/interventions/fire.py, which builds a new optimizer for each task.
    """

    name = "fire"
    title = "FIRE"
    only_at_new_task = True
    owns = frozenset({"all weights at a new task"})

    def __init__(
        self,
        model: nn.Module,
        example_inputs: Any = None,
        *,
        iterations: int | None = 10,
        layers: Sequence[str] | None = None,
        optimizer_state: Policy = "clear_moments",
        seed: int = 0,
    ) -> None:
        super().__init__(model, example_inputs, seed=seed)
        self.iterations = None if iterations is None else whole(iterations, "iterations")
        self.optimizer_state = check_policy(optimizer_state)
        self.layers = affine_layers(model)
        if layers is not None:
            chosen = {id(module) for module in inside(model, layers)}
            self.layers = [layer for layer in self.layers if id(layer.module) in chosen]
        elif not self.layers:
            raise ModelError("the model has no convolution or fully connected layer.")

    @torch.no_grad()
    def new_task(self, batches: Batches | None = None, loss_fn: LossFunction | None = None) -> None:
        """W <- the nearest isometry."""
        for layer in self.layers:
            layer.blocks().copy_(isometric(layer, self.iterations))
            forget(self.optimizer, layer.weight, policy=self.optimizer_state)
