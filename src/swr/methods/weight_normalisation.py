"""Projection-based weight normalisation: bring every unit's incoming weights to length one (Huang et al., 2017)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import nn

from swr.methods.bases.periodic import Periodic
from swr.methods.max_norm import row_norms
from swr.methods.tools.layers import affine_layers
from swr.methods.tools.tuning import along


class WeightNormalisation(Periodic):
    """Every T steps, divide each unit's incoming weights by their norm.

        w_i <- w_i / ‖w_i‖,   w_i = a row of W, a filter of a convolution; one that is zero stays

    >>> layer = nn.Linear(2, 2)
    >>> layer.weight.data = torch.tensor([[3.0, 4.0], [0.0, 2.0]])
    >>> WeightNormalisation(layer, every=1, head=True).step()
    >>> layer.weight.data
    tensor([[0.6000, 0.8000],
            [0.0000, 1.0000]])

    When:
        After every T-th step of the optimizer.

    Touches:
        Weights of convolutions and fully connected layers; nothing else. The scale per unit that the paper learns after each
        layer is part of the network: a normalisation layer's gain, or one of your own.

    Keeps:
        The number of steps.

    Args:
        every: T; 10 to 100 in the paper; infinity for never.
        head: True projects the last layer too, as the authors' fully connected networks do; their convolutional ones do not.

    References:
        L. Huang et al., 2017, "Projection Based Weight Normalization for Deep Neural Networks", arXiv 1710.02338.
    """

    name = "weight-normalisation"
    title = "weight normalisation"
    tuning = along("every", 1, 10, 20, 50, 100)
    owns = frozenset({"the norms of the weights"})
    symbols: ClassVar[Mapping[str, str]] = {"every": "T"}

    def __init__(
        self, model: nn.Module, example_inputs: Any = None, *, every: float = 10, head: bool = False, seed: int = 0
    ) -> None:
        super().__init__(model, example_inputs, every=every, seed=seed)
        self._layers = affine_layers(model, head=head)

    @torch.no_grad()
    def act(self) -> None:
        """Project."""
        if self._layers:
            rows = [layer.blocks() for layer in self._layers]
            norms = [row_norms(row) for row in rows]
            torch._foreach_mul_(rows, [torch.where(norm > 0, 1 / norm, 1.0) for norm in norms])
