"""LLF, later-layer forgetting: keep the early layers, re-initialise the later ones (Zhou et al., 2022)."""

from __future__ import annotations

from math import ceil
from typing import Any

import torch
from torch import nn

from swr.checks import whole
from swr.errors import ModelError, OptionError
from swr.methods.base import Batches, LossFunction, Method
from swr.methods.tools.fresh import Initialiser, fresh_values, own_initialiser
from swr.methods.tools.layers import Affine, affine_layers
from swr.methods.tools.optimizer_state import Policy, check_policy, forget
from swr.methods.tools.tuning import along


class LaterLayerForgetting(Method):
    """Give the weights of the later layers fresh values at the start of each generation.

        W_l <- fresh   for l >= L,   W_l as it is for l < L

    The values are a new draw, not the initial ones.

    >>> method = LaterLayerForgetting(model, first="3")  # the module of this name, and all after it
    >>> method.new_task()

    When:
        At a new task, which is the next generation.

    Touches:
        Weights of the later convolutions and fully connected layers. Biases, gains, shifts and running statistics stay, as in
        the source, which begins each generation with a new optimizer and schedule: the loop's to do.

    Keeps:
        The random numbers only.

    Args:
        first: L, the number of convolutions and fully connected layers that are kept, in registration order, or the name of the
            first module that is forgotten. By default the last quarter of the layers, rounded up, is forgotten: of a ResNet-18
            the source's choice, ``layer4`` and ``fc``.
        initialise: re-initialises one layer; by default its own ``reset_parameters()``.
        optimizer_state: what the optimizer forgets of the fresh weights, a policy of :mod:`swr.methods.tools.optimizer_state`;
            ``"clear_all"`` is nearest to the authors' new optimizer, and was worse on streams (docs/leaderboard.md).

    References:
        H. Zhou, A. Vani, H. Larochelle, A. Courville, 2022, "Fortuitous Forgetting in Connectionist Networks", ICLR; the
        authors' code, llf_ke/utils/net_utils.py. It draws He-uniform values whatever the layer had; here each draws its own.
    """

    name = "llf"
    title = "LLF"
    only_at_new_task = True
    tuning = along("first", 1, 2)
    symbols = {"first": "L"}  # noqa: RUF012

    def __init__(
        self,
        model: nn.Module,
        example_inputs: Any = None,
        *,
        first: int | str | None = None,
        initialise: Initialiser = own_initialiser,
        optimizer_state: Policy = "clear_moments",
        seed: int = 0,
    ) -> None:
        super().__init__(model, example_inputs, seed=seed)
        layers = affine_layers(model)
        if not layers:
            raise ModelError("the model has no convolution or fully connected layer to forget.")
        self.layers = layers[_first(model, layers, first) :]
        self.initialise = initialise
        self.optimizer_state = check_policy(optimizer_state)

    @torch.no_grad()
    def new_task(self, batches: Batches | None = None, loss_fn: LossFunction | None = None) -> None:
        """Forget the later layers."""
        if not self.layers:
            return
        fresh = fresh_values([layer.module for layer in self.layers], self.generator, self.initialise)
        for layer in self.layers:
            layer.weight.copy_(fresh[layer.weight])
            forget(self.optimizer, layer.weight, policy=self.optimizer_state)


def _first(model: nn.Module, layers: list[Affine], first: int | str | None) -> int:
    if first is None:
        return len(layers) - ceil(len(layers) / 4)
    if isinstance(first, str):
        order = {name: i for i, name in enumerate(dict(model.named_modules()))}
        if first not in order:
            raise OptionError(f"first L: the model has no module {first!r}; it has {', '.join(filter(None, order))}.")
        return sum(order[layer.name.rpartition(".")[0]] < order[first] for layer in layers)
    if whole(first, "first L", 0) > len(layers):
        raise OptionError(f"first L must be at most {len(layers)}, the number of layers, found {first!r}.")
    return int(first)
