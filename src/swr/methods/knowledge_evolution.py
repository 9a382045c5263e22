"""Knowledge Evolution: keep a fixed part of every weight, re-initialise the rest (Taha et al., 2021)."""

from __future__ import annotations

from math import ceil
from typing import Any, Literal, get_args

import torch
from torch import Generator, Tensor, nn
from torch.nn.modules.conv import _ConvNd

from swr.checks import choice, fraction
from swr.errors import ModelError
from swr.methods.base import Batches, LossFunction, Method, restore
from swr.methods.tools.fresh import Initialiser, fresh_values, own_initialiser
from swr.methods.tools.layers import Affine, affine_layers
from swr.methods.tools.optimizer_state import Policy, check_policy, forget
from swr.methods.tools.tuning import along

Mask = Literal["kels", "wels"]


def slim_masks(layers: list[Affine], split: float) -> list[Tensor]:
    """KELS: of every weight the first ⌈s·out⌉ rows and ⌈s·in⌉ input channels, a slim network inside the network.

    The first layer keeps all inputs, the last all outputs. A fully connected layer registered after a convolution keeps the
    columns that the kept channels flatten to.

    >>> weight = nn.Parameter(torch.zeros(3, 4))
    >>> slim_masks([Affine("weight", nn.Linear(4, 3), weight)] * 2, 0.5)[-1].int()
    tensor([[1, 1, 0, 0],
            [1, 1, 0, 0],
            [1, 1, 0, 0]], dtype=torch.int32)
    """
    masks = []
    for i, layer in enumerate(layers):
        mask = torch.zeros_like(layer.weight, dtype=torch.bool)
        view = mask.unflatten(0, (3, -1)) if layer.weight is getattr(layer.module, "in_proj_weight", None) else mask[None]
        if isinstance(layer.module, _ConvNd) and layer.module.transposed:
            view = view.transpose(1, 2)
        rows, columns = view.shape[1:3]
        before = layers[i - 1].module if i else None
        span = 1
        if isinstance(layer.module, nn.Linear) and isinstance(before, _ConvNd) and columns % before.out_channels == 0:
            span = columns // before.out_channels
        kept_rows = rows if i == len(layers) - 1 else _part(split, rows)
        kept_columns = columns if i == 0 else span * _part(split, columns // span)
        view[:, :kept_rows, :kept_columns] = True
        masks.append(mask)
    return masks


def random_masks(layers: list[Affine], split: float, generator: Generator) -> list[Tensor]:
    """WELS: every entry of every weight with probability s."""
    drawn = [torch.rand(layer.weight.shape, generator=generator) < split for layer in layers]
    return [mask.to(layer.weight.device) for mask, layer in zip(drawn, layers, strict=True)]


class KnowledgeEvolution(Method):
    """Keep the weights under a fixed binary mask M and give all others fresh values, generation after generation.

        W <- M ⊙ W + (1 - M) ⊙ fresh

    >>> method = KnowledgeEvolution(model, split=0.8)
    >>> method.new_task()

    When:
        At a new task, which is the next generation.

    Touches:
        Weights of convolutions and fully connected layers, outside the mask. Biases, gains, shifts and running statistics stay,
        as in the source, which begins each generation with a new optimizer and schedule: the loop's to do. The channels of
        residual and concatenating networks line up in registration order only.

    Keeps:
        The mask.

    Args:
        split: s in [0, 1], the part that is kept of every layer's channels (KELS) or entries (WELS); with 1 nothing is done.
        mask: "kels" keeps the first channels, which make a slim network of their own; "wels" keeps random entries.
        initialise: re-initialises one layer; by default its own ``reset_parameters()``.
        optimizer_state: what the optimizer forgets of the fresh entries, a policy of :mod:`swr.methods.tools.optimizer_state`.

    References:
        A. Taha, A. Shrivastava, L. Davis, 2021, "Knowledge Evolution in Neural Networks", CVPR; the authors' code, layers/*.py.
        It draws He-uniform values whatever the layer had; here each draws its own.
    """

    name = "knowledge-evolution"
    title = "Knowledge Evolution"
    only_at_new_task = True
    tuning = along("split", 0.2, 0.4, 0.5, 0.6, 0.8)
    symbols = {"split": "s"}  # noqa: RUF012

    def __init__(
        self,
        model: nn.Module,
        example_inputs: Any = None,
        *,
        split: float = 0.8,
        mask: Mask = "kels",
        initialise: Initialiser = own_initialiser,
        optimizer_state: Policy = "clear_moments",
        seed: int = 0,
    ) -> None:
        super().__init__(model, example_inputs, seed=seed)
        self.split = fraction(split, "split s")
        choice(mask, "mask", get_args(Mask))
        self.layers = affine_layers(model)
        if not self.layers:
            raise ModelError("the model has no convolution or fully connected layer to split.")
        slim = mask == "kels"
        found = slim_masks(self.layers, self.split) if slim else random_masks(self.layers, self.split, self.generator)
        self._masks = {layer.name: kept for layer, kept in zip(self.layers, found, strict=True)}
        self.initialise = initialise
        self.optimizer_state = check_policy(optimizer_state)

    @torch.no_grad()
    def new_task(self, batches: Batches | None = None, loss_fn: LossFunction | None = None) -> None:
        """W <- M ⊙ W + (1 - M) ⊙ fresh."""
        if self.split == 1:
            return
        fresh = fresh_values([layer.module for layer in self.layers], self.generator, self.initialise)
        for layer in self.layers:
            kept = self._masks[layer.name]
            layer.weight.copy_(torch.where(kept, layer.weight, fresh[layer.weight]))
            forget(self.optimizer, layer.weight, ~kept, self.optimizer_state)

    def state(self) -> dict[str, Any]:
        """What has to be saved."""
        return {"masks": dict(self._masks)}

    def load_state(self, state: dict[str, Any]) -> None:
        """The reverse of :meth:`state`."""
        restore(self._masks, state["masks"])


def _part(split: float, count: int) -> int:
    return ceil(split * count - 1e-9)  # 0.1 * 30 is above 3 in floating point
