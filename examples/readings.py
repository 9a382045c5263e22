"""Other readings of the paper, tried where our numbers differ from the published ones: methods of one's own in the bench.

    swr run lr-decay --columns mnist-mlp --methods examples.readings:UnscaledBiases --seeds 3

runs one from the folder above this one; docs/results.md says what came out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import nn

from swr.methods import SWR, Method

COEFFICIENT = 1e-4
"""the paper's λ for the MLP on MNIST"""


class UnscaledBiases(Method):
    """Algorithm 1 without its last line: weights are pulled to their initial norms, and biases stay as they are.

        W_l <- c_l W_l,   c_l = λ n_l^init / ‖W_l‖ + 1 - λ

    The function is then no longer kept.

    coefficient: λ.
    """

    title = "SWR, biases unscaled"
    symbols: ClassVar[Mapping[str, str]] = {"coefficient": "λ"}

    def __init__(
        self, model: nn.Module, example_inputs: Any = None, *, coefficient: float = COEFFICIENT, seed: int = 0
    ) -> None:
        super().__init__(model, example_inputs, seed=seed)
        self.coefficient = coefficient
        self.weights = [p for p in model.parameters() if p.ndim > 1]
        self.anchors = [p.detach().norm() for p in self.weights]

    @torch.no_grad()
    def step(self) -> None:
        """Rescale the weights."""
        for weight, anchor in zip(self.weights, self.anchors, strict=True):
            weight.mul_(self.coefficient * anchor / weight.norm() + 1 - self.coefficient)

    def state(self) -> dict[str, Any]:
        """What has to be saved."""
        return {"anchors": torch.stack(self.anchors)}

    def load_state(self, state: dict[str, Any]) -> None:
        """The reverse of :meth:`state`."""
        self.anchors = list(state["anchors"].unbind())


class HeInit(Method):
    """Vanilla from He's initialisation in place of PyTorch's: weights of deviation √(2 / inputs), biases zero."""

    title = "vanilla, He's initialisation"

    def __init__(self, model: nn.Module, example_inputs: Any = None, *, seed: int = 0) -> None:
        super().__init__(model, example_inputs, seed=seed)
        he_init(model, self.generator)


class HeInitSWR(SWR):
    """SWR from He's initialisation, whose norms are the anchors.

    coefficient: λ.
    """

    title = "SWR, He's initialisation"

    def __init__(
        self, model: nn.Module, example_inputs: Any = None, *, coefficient: float = COEFFICIENT, seed: int = 0
    ) -> None:
        he_init(model, torch.Generator().manual_seed(seed))
        super().__init__(model, example_inputs, coefficient=coefficient, seed=seed)


def he_init(model: nn.Module, generator: torch.Generator) -> None:
    """Draw every weight anew, with deviation √(2 / inputs), and set biases to zero."""
    for p in model.parameters():
        if p.ndim > 1:
            nn.init.kaiming_normal_(p, nonlinearity="relu", generator=generator)
        else:
            nn.init.zeros_(p)
