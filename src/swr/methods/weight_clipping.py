"""Weight clipping: keep every weight within reach of its initial distribution (Elsayed et al., 2024)."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from swr.checks import positive
from swr.methods.base import Method
from swr.methods.tools.layers import affine_layers
from swr.methods.tools.tuning import along


class WeightClipping(Method):
    """Clip weights and biases to κ times the bound that torch draws them within.

        W_l <- clamp(W_l, -κ s_l, κ s_l),   b_l likewise,   s_l = 1 / √(fan-in of W_l)

    >>> layer = nn.Linear(4, 3)
    >>> layer.bias.data = torch.tensor([0.7, -0.6, 0.2])
    >>> WeightClipping(layer, bound=1.0).step()
    >>> layer.bias.data
    tensor([ 0.5000, -0.5000,  0.2000])

    When:
        After every step of the optimizer, whose moments keep pushing at the wall.

    Touches:
        Weights and biases of convolutions and fully connected layers. Gains and shifts of normalisation layers stay: the
        authors' code takes them for biases of the layer before, and would clip gains of 1.

    Keeps:
        Nothing; s_l is a constant of the layer, whatever initialiser was used.

    Args:
        bound: κ, above 0; 1 to 5 in the paper; infinity clips nothing.
        head: False spares the last layer.

    References:
        M. Elsayed, Q. Lan, C. Lyle, A. R. Mahmood, 2024, "Weight Clipping for Deep Continual and Reinforcement Learning", arXiv
        2407.01704.
    """

    name = "weight-clipping"
    title = "weight clipping"
    tuning = along("bound", 1.0, 2.0, 3.0, 4.0, 5.0)
    symbols: ClassVar[Mapping[str, str]] = {"bound": "κ"}

    def __init__(
        self, model: nn.Module, example_inputs: Any = None, *, bound: float = 1.0, head: bool = True, seed: int = 0
    ) -> None:
        super().__init__(model, example_inputs, seed=seed)
        self.bound = positive(bound, "bound κ")
        self._tensors: list[Tensor] = []
        self._limits: list[float] = []
        for layer in affine_layers(model, head=head):
            fan_in = layer.weight[0].numel()
            self._tensors += [layer.weight, *layer.biases]
            self._limits += [self.bound / fan_in**0.5] * (1 + len(layer.biases))

    @torch.no_grad()
    def step(self) -> None:
        """Clip."""
        if self.bound < inf and self._tensors:
            torch._foreach_clamp_max_(self._tensors, self._limits)
            torch._foreach_clamp_min_(self._tensors, [-limit for limit in self._limits])
