"""L2: pull all learnable parameters to zero."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from swr.methods.bases.decay import Decay
from swr.methods.tools.tuning import DECADES


class L2(Decay):
    """L2 regularisation, over all learnable parameters, biases and normalisation layers included.

        loss + λ/2 ‖θ‖²

    >>> method = L2(model, coefficient=1e-5)
    >>> handle = method.attach(optimizer)

    When:
        In the loss; attached, λ θ is added to the gradients before every step.

    Touches:
        All learnable parameters.

    Keeps:
        Nothing.

    Differences:
        The authors of SWR leave out the 1/2 in their code: λ here is 2 λ there.

    Args:
        coefficient: λ, at least 0.
    """

    name = "l2"
    title = "L2"
    tuning = DECADES

    def differences(self, parameters: Sequence[nn.Parameter]) -> list[Tensor]:
        """Θ itself."""
        return list(parameters)
