"""Parseval regularisation: keep the rows of every hidden layer's weights orthogonal (Chung et al., 2024)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from swr.checks import positive
from swr.methods.bases.penalty import Penalty
from swr.methods.tools.layers import affine_layers, wide
from swr.methods.tools.tuning import DECADES


def parseval(matrices: Tensor, scale: float) -> Tensor:
    """Σ ‖W Wᵀ - s I‖² over a stack of matrices.

    Of W Wᵀ and Wᵀ W the smaller is made: with more rows than columns the two values differ by (rows - columns) s², a
    constant that no W can avoid.

    >>> parseval(torch.tensor([[[1.0, 1.0], [0.0, 2.0]]]), 2.0)
    tensor(12.)

    Args:
        matrices: [stack, rows, columns].
        scale: s.
    """
    rows, columns = matrices.shape[1:]
    gram = matrices @ matrices.mT if rows <= columns else matrices.mT @ matrices
    identity = torch.eye(min(rows, columns), dtype=gram.dtype, device=gram.device)
    floor = len(matrices) * max(rows - columns, 0) * scale**2
    return (gram - scale * identity).square().sum() + floor


class Parseval(Penalty):
    """Penalise what separates each hidden layer's weights from s times an orthogonal matrix.

        loss + λ Σ_l ‖W_l W_lᵀ - s I‖²,   gradient 4λ (W Wᵀ - s I) W

    >>> method = Parseval(model, coefficient=1e-3)
    >>> handle = method.attach(optimizer)

    When:
        In the loss.

    Touches:
        Weights of hidden fully connected layers and convolutions (as matrices [outputs, inputs * kernel]).

    Keeps:
        Nothing.

    Args:
        coefficient: λ, at least 0; 1e-3 or 1e-4 in the paper.
        scale: s, the squared gain of the orthogonal initialisation: 2 for the gain √2 of ReLU networks, as in the paper. With
            other initialisers it pulls the weights to another size, and another s is another method.
        head: True includes the last layer, as some code does with s = 1.

    References:
        W. Chung, L. Cherif, D. Precup, D. Meger, 2024, "Parseval Regularization for Continual Reinforcement Learning".
    """

    name = "parseval"
    title = "Parseval"
    tuning = DECADES

    def __init__(
        self,
        model: nn.Module,
        example_inputs: Any = None,
        *,
        coefficient: float = 1e-3,
        scale: float = 2.0,
        head: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__(model, example_inputs, coefficient=coefficient, seed=seed)
        self.scale = positive(scale, "scale s")
        self._layers = affine_layers(model, head=head)

    def value(self) -> Tensor | None:
        """Σ ‖W Wᵀ - s I‖²."""
        terms = [parseval(wide(layer.blocks()).flatten(2), self.scale) for layer in self._layers]
        return torch.stack(terms).sum() if terms else None
