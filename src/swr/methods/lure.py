"""LURE: unlearn what matters least for the new data, then relearn (Ramkumar et al., 2023)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn

from swr.checks import fraction, whole
from swr.errors import ModelError
from swr.methods.base import Batches, LossFunction, Method
from swr.methods.tools.fresh import Initialiser, fresh_values, own_initialiser
from swr.methods.tools.layers import affine_layers
from swr.methods.tools.loss_gradients import gradients, new_data
from swr.methods.tools.optimizer_state import Policy, check_policy, forget
from swr.methods.tools.tuning import along


def least(saliencies: Sequence[Tensor], part: float) -> list[Tensor]:
    """Masks of the entries up to the r-quantile of all tensors together; entries equal to it are in.

    >>> least([torch.tensor([0.1, 0.4]), torch.tensor([0.2, 0.04])], 0.25)
    [tensor([False, False]), tensor([False,  True])]
    """
    everything = torch.cat([saliency.flatten() for saliency in saliencies])
    count = int(part * len(everything) + 1e-9)
    if count == 0:
        return [torch.zeros_like(saliency, dtype=torch.bool) for saliency in saliencies]
    threshold = everything.kthvalue(count).values
    return [saliency <= threshold for saliency in saliencies]


class Lure(Method):
    """Give fresh values to the weights that the loss on the new data depends on least.

        q = |θ ⊙ Σ |∂L/∂θ||   over a few batches;   θ_i <- fresh   where q_i <= the r-quantile of all q

    With θ = (1, -2, 0.5, 4), gradients (0.1, 0.2, -0.4, 0.01) and r = 0.25 only the last is re-initialised: it is the largest,
    but the loss does not depend on it.

    >>> method = Lure(model, part=0.2)
    >>> method.new_task([(x, torch.tensor([0, 1]))], nn.functional.cross_entropy)

    When:
        At a new task; looks at its data.

    Touches:
        Weights of convolutions and fully connected layers, which alone are ranked. Biases, gains, shifts and running statistics
        stay. Weights that no gradient reaches share q = 0, so that more than r may be drawn. The authors keep the momentum of
        drawn entries; here the one policy of all resets applies.

    Keeps:
        The random numbers only.

    Args:
        part: r in [0, 1], the part of all weights that is re-initialised; with 0 nothing is done.
        mini_batches: how many of the new batches are looked at; the source takes every 32nd part of its data, two of 5,000
            images in batches of 100.
        initialise: re-initialises one layer; by default its own ``reset_parameters()``.
        optimizer_state: what the optimizer forgets of the fresh entries, a policy of :mod:`swr.methods.tools.optimizer_state`.

    References:
        V. Ramkumar, E. Arani, B. Zonooz, 2023, "Learn, Unlearn and Relearn: An Online Learning Paradigm for Deep Neural
        Networks", TMLR; the authors' code, LURE_main.py and pruning.py. There biases and gains take part in the ranking, and
        gains are drawn from U(-1, 1) because their names contain "weight".
    """

    name = "lure"
    title = "LURE"
    only_at_new_task = True
    tuning = along("part", 0.05, 0.1, 0.2, 0.3, 0.4)
    symbols = {"part": "r"}  # noqa: RUF012

    def __init__(
        self,
        model: nn.Module,
        example_inputs: Any = None,
        *,
        part: float = 0.2,
        mini_batches: int = 2,
        initialise: Initialiser = own_initialiser,
        optimizer_state: Policy = "clear_moments",
        seed: int = 0,
    ) -> None:
        super().__init__(model, example_inputs, seed=seed)
        self.part = fraction(part, "part r")
        self.mini_batches = whole(mini_batches, "mini_batches")
        self.layers = affine_layers(model)
        if not self.layers:
            raise ModelError("the model has no convolution or fully connected layer to unlearn.")
        self.initialise = initialise
        self.optimizer_state = check_policy(optimizer_state)

    @torch.no_grad()
    def new_task(self, batches: Batches | None = None, loss_fn: LossFunction | None = None) -> None:
        """Unlearn."""
        if not self.part:
            return
        batches, loss_fn = new_data(self.title, batches, loss_fn)
        weights: list[Tensor] = [layer.weight for layer in self.layers]
        sums = [torch.zeros_like(weight) for weight in weights]
        with gradients(self.model, weights, loss_fn, self.generator) as gradient:
            for inputs, targets in islice(batches, self.mini_batches):
                torch._foreach_add_(sums, torch._foreach_abs(gradient(inputs, targets)))
        masks = least(torch._foreach_abs(torch._foreach_mul(weights, sums)), self.part)
        fresh = fresh_values([layer.module for layer in self.layers], self.generator, self.initialise)
        for layer, mask in zip(self.layers, masks, strict=True):
            layer.weight.copy_(torch.where(mask, fresh[layer.weight], layer.weight))
            forget(self.optimizer, layer.weight, mask, self.optimizer_state)
