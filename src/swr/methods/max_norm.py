"""Max-norm: no unit's incoming weights grow longer than a constant (Srivastava et al., 2014)."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from swr.checks import positive
from swr.methods.base import Method
from swr.methods.tools.layers import affine_layers, wide
from swr.methods.tools.tuning import along


def row_norms(blocks: Tensor) -> Tensor:
    """‖w_i‖ of every output's incoming weights, dimensions kept, in at least single precision.

    Args:
        blocks: [groups, outputs, inputs, *kernel].
    """
    dims = tuple(range(2, blocks.ndim))
    norms: Tensor = torch.linalg.vector_norm(wide(blocks), dim=dims, keepdim=True)
    return norms


class MaxNorm(Method):
    """Shorten the incoming weights of every unit that has more than the allowed norm.

        w_i <- w_i min(1, c / ‖w_i‖),   w_i = a row of W, a filter of a convolution

    >>> layer = nn.Linear(2, 1)
    >>> layer.weight.data = torch.tensor([[3.0, 4.0]])
    >>> MaxNorm(layer, bound=2.5).step()
    >>> layer.weight.data
    tensor([[1.5000, 2.0000]])

    When:
        After every step of the optimizer.

    Touches:
        Weights of convolutions and fully connected layers; nothing else.

    Keeps:
        Nothing.

    Args:
        bound: c, above 0; 3 or 4 are common; infinity allows anything.
        head: False spares the last layer: the paper speaks of hidden units, implementations bound the output's too.

    References:
        N. Srivastava et al., 2014, "Dropout: A Simple Way to Prevent Neural Networks from Overfitting" (section 5.1).
    """

    name = "max-norm"
    title = "max-norm"
    tuning = along("bound", 0.5, 1.0, 2.0, 3.0, 4.0)
    symbols: ClassVar[Mapping[str, str]] = {"bound": "c"}

    def __init__(
        self, model: nn.Module, example_inputs: Any = None, *, bound: float = 3.0, head: bool = True, seed: int = 0
    ) -> None:
        super().__init__(model, example_inputs, seed=seed)
        self.bound = positive(bound, "bound c")
        self._layers = affine_layers(model, head=head)

    @torch.no_grad()
    def step(self) -> None:
        """Project."""
        if self.bound < inf and self._layers:
            rows = [layer.blocks() for layer in self._layers]
            torch._foreach_mul_(rows, [(self.bound / row_norms(row)).clamp_(max=1.0) for row in rows])
