"""Spectral regularisation: pull every layer's largest singular value to 1 (Lewandowski et al., 2024)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from swr.checks import whole
from swr.methods.spectral_penalty import SpectralNorm
from swr.methods.tools.layers import normalisations, wide
from swr.methods.tools.tuning import DECADES


class Spectral(SpectralNorm):
    """Keep spectral norms near 1, biases near 0, and gains of normalisation layers near 1.

        loss + λ [ Σ_l (σ(W_l)^k - 1)² + Σ_b ‖b‖^2k + Σ_γ ‖γ - 1‖² ]      b: biases, and shifts of normalisation layers

    >>> method = Spectral(model, coefficient=1e-4)
    >>> handle = method.attach(optimizer)

    When:
        In the loss. Each step refines σ by one power iteration, from vectors that are kept; σ itself is differentiated.

    Touches:
        Weights of convolutions (as matrices [outputs, inputs * kernel]) and fully connected layers, the head included, their
        biases, gains and shifts.

    Keeps:
        One vector per matrix.

    Args:
        coefficient: λ, at least 0.
        power: k, a whole number; 2 in the paper, 3 in some code.

    References:
        A. Lewandowski et al., 2024, "Learning Continually by Spectral Regularization", arXiv 2406.06811.
    """

    name = "spectral"
    title = "spectral regularisation"
    tuning = DECADES

    def __init__(
        self, model: nn.Module, example_inputs: Any = None, *, coefficient: float = 1e-4, power: int = 2, seed: int = 0
    ) -> None:
        super().__init__(model, example_inputs, coefficient=coefficient, seed=seed)
        self.power = whole(power, "power k")
        normalising = normalisations(model)
        self._gains = [layer.gain for layer in normalising]
        self._biases = [bias for layer in self._layers for bias in layer.biases]
        self._biases += [layer.shift for layer in normalising if layer.shift is not None]

    def value(self) -> Tensor | None:
        """Σ (σ^k - 1)² + Σ ‖b‖^2k + Σ ‖γ - 1‖²."""
        terms = []
        if self._layers:
            terms.append((self.norms() ** self.power - 1).square().sum())
        if self._biases:
            squares = torch.stack([wide(b).square().sum() for b in self._biases])
            terms.append((squares**self.power).sum())
        terms += [(wide(gain) - 1).square().sum() for gain in self._gains]
        return torch.stack(terms).sum() if terms else None
