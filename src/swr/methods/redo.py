"""ReDo: recycle dormant neurons (Sokar et al., 2023)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from swr.checks import finite, interval
from swr.methods.bases.unit_method import UnitMethod, mean_magnitude
from swr.methods.tools.fresh import Initialiser, own_initialiser
from swr.methods.tools.optimizer_state import Policy
from swr.methods.tools.tuning import along


def dormancy_scores(magnitude: Tensor) -> Tensor:
    """s_i of the units of a layer, 1 on average.

    >>> dormancy_scores(torch.tensor([2.0, 0.0, 2.0]))
    tensor([1.5000, 0.0000, 1.5000])

    Args:
        magnitude: a_i, the mean |h_i|.
    """
    return magnitude / (magnitude.mean() + 1e-9)


class ReDo(UnitMethod):
    """Give units that have become (almost) silent a new life.

        a_i = mean |h_i| over the batch (and places),   s_i = a_i / (mean_k a_k + 1e-9)
        dormant: s_i <= τ        W_in fresh,   b_i <- 0,   W_out <- 0

    >>> method = ReDo(model, x, threshold=0.025, every=1000)
    >>> handle = method.attach(optimizer)

    When:
        After every F-th step, from the activations of that step's batch. A step without a training pass puts it off.

    Touches:
        Dormant units of every layer whose incoming and outgoing weights are all known (``method.units.describe()``), the output
        layer never. Entries of a batch normalisation after the layer are reset too, which the paper does not say. Scores have
        mean 1, as the paper's formula and code give them. In a layer that is silent throughout all units go.

    Keeps:
        The steps since the last time.

    Args:
        threshold: τ; below 0 nothing is done. 0.025 and 0.1 in the paper.
        every: F, steps from one time to the next; infinity for never.
        initialise: re-initialises one layer; by default its own ``reset_parameters()``.
        optimizer_state: what the optimizer forgets of recycled units, a policy of :mod:`swr.methods.tools.optimizer_state`.

    References:
        G. Sokar, R. Agarwal, P. S. Castro, U. Evci, 2023, "The Dormant Neuron Phenomenon in Deep Reinforcement Learning", ICML.
        Fresh weights come from the layer's own initialiser; the authors' code draws Xavier whatever the layer had. They clear
        the moments of weights and not of biases; here the one policy of all resets applies to both.
    """

    name = "redo"
    title = "ReDo"
    tuning = along("threshold", 0.0, 0.01, 0.025, 0.05, 0.1)
    symbols: ClassVar[Mapping[str, str]] = {"threshold": "τ", "every": "F"}

    def __init__(
        self,
        model: nn.Module,
        example_inputs: Any = None,
        *,
        threshold: float = 0.025,
        every: float = 1000,
        initialise: Initialiser = own_initialiser,
        optimizer_state: Policy = "clear_moments",
        seed: int = 0,
    ) -> None:
        self.threshold = finite(threshold, "threshold τ")
        self.every = interval(every, "every F")
        super().__init__(model, example_inputs, initialise=initialise, optimizer_state=optimizer_state, seed=seed)
        self._steps = 0
        self._seen: dict[int, Tensor] = {}

    def watching(self) -> bool:
        """Only before the step at which units are recycled."""
        return self._steps + 1 >= self.every

    def see(self, layer: int, activation: Tensor) -> None:
        """Add up |h| of the passes before a step, if there are several."""
        found = mean_magnitude(activation, self.units.layers[layer].site.nonnegative)
        self._seen[layer] = self._seen[layer] + found if layer in self._seen else found

    @torch.no_grad()
    def step(self) -> None:
        """Count, and recycle dormant units when it is time."""
        self._steps += 1
        if self._steps < self.every or self.blind(not self._seen):
            return
        dormant = {layer: (dormancy_scores(found) <= self.threshold).nonzero().flatten() for layer, found in self._seen.items()}
        self.recycle((layer, index) for layer, index in sorted(dormant.items()) if len(index))
        self._steps, self._seen = 0, {}

    def state(self) -> dict[str, Any]:
        """What has to be saved."""
        return {**super().state(), "steps": self._steps}

    def load_state(self, state: dict[str, Any]) -> None:
        """The reverse of :meth:`state`."""
        super().load_state(state)
        self._steps, self._seen = int(state["steps"]), {}
