"""Hyperball: fix the norms of the weights and of their updates (Wen et al., 2025)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from swr.checks import positive
from swr.methods.base import restore
from swr.methods.bases.update_method import Moved, UpdateMethod
from swr.methods.tools.layers import affine_layers
from swr.methods.tools.tuning import along
from swr.norms import frobenius_norms


def on_the_sphere(moved: Moved, radii: list[Tensor], scale: float = 1.0) -> list[Tensor]:
    """W <- R norm(W - s η R norm(u)) for every tensor, R and η its radius and learning rate, -u the direction of its update.

    Where the update, the radius or the result is zero, there is no direction, and the weights stay as they were.

    >>> step = Moved([torch.tensor([3.0, 5.0])], [torch.tensor([3.0, 4.0])], [0.1])
    >>> on_the_sphere(step, [torch.tensor(5.0)])
    [tensor([2.7735, 4.1603])]
    """
    updates = list(torch._foreach_sub(moved.parameters, moved.before))
    lengths = frobenius_norms(updates).unbind()
    scales = [
        torch.where(length > 0, scale * rate * radius / length, 0.0).to(update)
        for length, rate, radius, update in zip(lengths, moved.rates, radii, updates, strict=True)
    ]
    found = list(torch._foreach_add(moved.before, torch._foreach_mul(updates, scales)))
    norms = frobenius_norms(found).unbind()
    factors = [
        torch.where((norm > 0) & (radius > 0), radius / norm, 1.0).to(one)
        for norm, radius, one in zip(norms, radii, found, strict=True)
    ]
    return list(torch._foreach_mul(found, factors))


class Hyperball(UpdateMethod):
    """Keep every weight tensor on the sphere of its initial norm, and take steps of a fixed length on it.

        W <- R norm(W - s η R norm(u)),   norm(x) = x / ‖x‖,   R = ‖W_0‖,   u = the optimizer's update

    s η is the size of a step relative to the weights, whatever the gradients are. It alone decides how fast a layer turns, so
    the learning rate η needs a schedule, and weight decay has nothing left to do. For W = (3, 4), R = 5, s η = 0.1 and an
    update along (0, 1): W + (0, 0.5) = (3, 4.5), and on the sphere (2.774, 4.160).

    >>> method = Hyperball(model)
    >>> handle = method.attach(optimizer)

    When:
        Around every step: it replaces the length of the optimizer's update, and keeps its direction.

    Touches:
        Weights of convolutions and fully connected layers. Biases, normalisation layers and embeddings keep the optimizer's
        update. A weight that begins at zero has no sphere and does not move.

    Keeps:
        R; within a step a copy of the weights.

    Differences:
        The source applies it to the projections of transformers, whose normalisation layers have gains. A network without them
        cannot undo the fixed norm of its last layer, which limits its outputs: ``head=False`` leaves that layer free.

    Args:
        scale: s, above 0; the source's is 1. A learning rate that suits Adam is small for it: at η = 1e-3 Adam's first steps
            change a layer of 64 to 100 inputs by about 1.5 %, and this one by 0.1 %; s = 10 to 20 makes them equal.
        head: False leaves the last layer to the optimizer.

    References:
        K. Wen, X. Dang, K. Lyu, T. Ma, P. Liang, 2025, "Fantastic Pretraining Optimizers and Where to Find Them 2.1: Hyperball
        Optimization" (AdamH with Adam, MuonH with Muon).
    """

    name = "hyperball"
    title = "Hyperball"
    tuning = along("scale", 0.3, 1.0, 3.0, 10.0, 30.0)
    symbols = {"scale": "s"}  # noqa: RUF012
    owns = frozenset({"the norms of the weights", "how long an update is", "how weights decay apart from the gradient"})

    def __init__(
        self, model: nn.Module, example_inputs: Any = None, *, scale: float = 1.0, head: bool = True, seed: int = 0
    ) -> None:
        layers = affine_layers(model, head=head)
        super().__init__(model, example_inputs, parameters=[layer.weight for layer in layers], seed=seed)
        self.scale = positive(scale, "scale s", infinite=False)
        norms = frobenius_norms([layer.weight.detach() for layer in layers]).unbind() if layers else ()
        self._radii: Mapping[str, Tensor] = {layer.name: norm.clone() for layer, norm in zip(layers, norms, strict=True)}
        self._radius_of: dict[Tensor, Tensor] = {layer.weight: self._radii[layer.name] for layer in layers}

    def change(self, moved: Moved) -> None:
        """Replace the update by a step on the sphere."""
        radii = [self._radius_of[p] for p in moved.parameters]
        torch._foreach_copy_(moved.parameters, on_the_sphere(moved, radii, self.scale))

    def state(self) -> dict[str, Any]:
        """What has to be saved."""
        return {"radii": dict(self._radii)}

    def load_state(self, state: dict[str, Any]) -> None:
        """The reverse of :meth:`state`."""
        restore(self._radii, state["radii"])
