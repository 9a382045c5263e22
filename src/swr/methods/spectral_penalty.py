"""Spectral norm regularisation: penalise the largest singular value of every layer (Yoshida and Miyato, 2017)."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from swr.methods.bases.penalty import Penalty
from swr.methods.tools.layers import affine_layers
from swr.methods.tools.spectral_norms import Map, PowerIteration, matrix_map
from swr.methods.tools.tuning import DECADES


class SpectralNorm(Penalty):
    """Penalise the squared spectral norm of every weight matrix.

        loss + λ/2 Σ_l σ(W_l)²,   gradient λ σ u vᵀ

    >>> method = SpectralNorm(model, coefficient=0.01)
    >>> handle = method.attach(optimizer)

    When:
        In the loss. Each step refines σ by one power iteration, from vectors that are kept; σ itself is differentiated.

    Touches:
        Weights of convolutions (as matrices [outputs, inputs * kernel]) and fully connected layers, the head included.

    Keeps:
        One vector per matrix.

    Args:
        coefficient: λ, at least 0.

    References:
        Y. Yoshida, T. Miyato, 2017, "Spectral Norm Regularization for Improving the Generalizability of Deep Learning", arXiv
        1705.10941.
    """

    name = "spectral-norm"
    title = "spectral norm"
    tuning = DECADES

    def __init__(self, model: nn.Module, example_inputs: Any = None, *, coefficient: float = 0.01, seed: int = 0) -> None:
        super().__init__(model, example_inputs, coefficient=coefficient, seed=seed)
        self._layers = affine_layers(model)
        self._power = PowerIteration(self._maps(), self.generator)

    def penalty(self, update: bool = True) -> Tensor | None:
        """λ R(θ), to add to the loss.

        Args:
            update: False looks again without a power iteration, so that a second call in a step changes nothing.
        """
        if update and self.coefficient and self._layers:
            self._power.refine(self._maps())
        return super().penalty()

    def value(self) -> Tensor | None:
        """Σ σ² / 2."""
        return 0.5 * self.norms().square().sum() if self._layers else None

    def norms(self) -> Tensor:
        """σ of every matrix, as far as the power iteration knows it."""
        return self._power.norms(self._maps())

    def _maps(self) -> dict[str, Map]:
        return {layer.name: matrix_map(layer) for layer in self._layers}

    def state(self) -> dict[str, Any]:
        """What has to be saved."""
        return {"vectors": dict(self._power.vectors)}

    def load_state(self, state: dict[str, Any]) -> None:
        """The reverse of :meth:`state`."""
        self._power.load(state["vectors"])
