"""L2 Init: pull all learnable parameters to where they began (Kumar et al., 2023)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from swr.methods.base import restore, saved
from swr.methods.bases.decay import Decay
from swr.methods.tools.tuning import DECADES


class L2Init(Decay):
    """L2 regularisation towards the initial parameters, which are kept: the size of the model once more.

        loss + λ/2 ‖θ - θ_0‖²

    >>> method = L2Init(model, coefficient=1e-5)
    >>> handle = method.attach(optimizer)

    When:
        In the loss; attached, λ (θ - θ_0) is added to the gradients before every step.

    Touches:
        All learnable parameters.

    Keeps:
        θ_0.

    Differences:
        The authors of SWR leave out the 1/2 in their code: λ here is 2 λ there.

    Args:
        coefficient: λ, at least 0.

    References:
        S. Kumar, H. Marklund, B. Van Roy, 2023, "Maintaining Plasticity in Continual Learning via Regenerative Regularization",
        arXiv 2308.11958.
    """

    name = "l2-init"
    title = "L2 Init"
    tuning = DECADES

    def __init__(self, model: nn.Module, example_inputs: Any = None, *, coefficient: float, seed: int = 0) -> None:
        super().__init__(model, example_inputs, coefficient=coefficient, seed=seed)
        self._initial = saved(self._parameters)
        self._starts = {p: self._initial[name] for name, p in self._parameters.items()}

    def differences(self, parameters: Sequence[nn.Parameter]) -> list[Tensor]:
        """θ - θ_0."""
        return list(torch._foreach_sub(list(parameters), [self._starts[p] for p in parameters])) if parameters else []

    def state(self) -> dict[str, Any]:
        """What has to be saved."""
        return {"initial": dict(self._initial)}

    def load_state(self, state: dict[str, Any]) -> None:
        """The reverse of :meth:`state`."""
        restore(self._initial, state["initial"])
