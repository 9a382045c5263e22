"""L2: pull all learnable parameters to zero."""

from __future__ import annotations

from torch import Tensor

from swr.methods.decay import Decay


class L2(Decay):
    """L2 regularisation, over all learnable parameters, biases and normalisation layers included.

        loss + λ/2 ‖θ‖²

    >>> method = L2(model, coefficient=1e-5)
    >>> handle = method.attach(optimizer)

    coefficient: λ, at least 0.
    """

    title = "L2"

    def differences(self, indices: list[int] | None = None) -> list[Tensor]:
        """Θ itself."""
        parameters: list[Tensor] = list(self._parameters.values())
        return parameters if indices is None else [parameters[i] for i in indices]
