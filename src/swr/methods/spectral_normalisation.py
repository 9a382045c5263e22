"""Spectral normalisation as a projection: bound the gain of chosen layers (after Gogianu et al., 2021)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from swr.checks import positive
from swr.errors import OptionError
from swr.methods.base import Method
from swr.methods.tools.layers import Affine, affine_layers
from swr.methods.tools.spectral_norms import Map, PowerIteration, input_sizes, operator_map
from swr.methods.tools.tuning import along


class SpectralNormalisation(Method):
    """Scale chosen layers down to a largest gain of k.

        W <- W min(1, k / σ(W)),   σ = the spectral norm of the layer; of a convolution, of the whole operator

    >>> method = SpectralNormalisation(model, x, bound=2.0)
    >>> handle = method.attach(optimizer)

    When:
        After every step of the optimizer, with one power iteration from vectors that are kept.

    Touches:
        The chosen layers' weights; nothing else.

    Keeps:
        One vector per layer.

    Args:
        example_inputs: a batch of inputs; the norm of a convolution depends on their size.
        bound: k, above 0; infinity allows anything.
        layers: names of the modules to bound; by default the last hidden layer, as in the paper.

    References:
        F. Gogianu et al., 2021, "Spectral Normalisation for Deep Reinforcement Learning: an Optimisation Perspective". There
        the forward pass divides by σ; as a projection the weights obey the same bound ("leave smaller"), and the gradients are
        those of the plain network.
    """

    name = "spectral-normalisation"
    title = "spectral normalisation"
    tuning = along("bound", 0.5, 1.0, 2.0, 4.0, 8.0)
    symbols: ClassVar[Mapping[str, str]] = {"bound": "k"}

    def __init__(
        self,
        model: nn.Module,
        example_inputs: Any = None,
        *,
        bound: float = 1.0,
        layers: Sequence[str] | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(model, example_inputs, seed=seed)
        self.bound = positive(bound, "bound k")
        self._layers = affine_layers(model, head=False)[-1:] if layers is None else _named(model, layers)
        self._sizes = input_sizes(model, example_inputs, self._layers)
        self._power = PowerIteration(self._maps(), self.generator)

    @torch.no_grad()
    def step(self) -> None:
        """Project."""
        if self.bound < inf and self._layers:
            factors = (self.bound / self._power.refine(self._maps())).clamp_(max=1.0)
            weights: list[Tensor] = [layer.weight for layer in self._layers]
            torch._foreach_mul_(weights, list(factors.unbind()))

    def _maps(self) -> dict[str, Map]:
        return {layer.name: operator_map(layer, self._sizes) for layer in self._layers}

    def state(self) -> dict[str, Any]:
        """What has to be saved."""
        return {"vectors": dict(self._power.vectors)}

    def load_state(self, state: dict[str, Any]) -> None:
        """The reverse of :meth:`state`."""
        self._power.load(state["vectors"])


def _named(model: nn.Module, names: Sequence[str]) -> list[Affine]:
    modules = dict(model.named_modules())
    chosen = {id(modules[name]) for name in names if name in modules}
    found = [layer for layer in affine_layers(model) if id(layer.module) in chosen]
    if len({id(layer.module) for layer in found}) != len(set(names)):
        known = [name for name, module in modules.items() if any(module is layer.module for layer in affine_layers(model))]
        raise OptionError(f"layers must be names of trained layers ({', '.join(known)}), found {', '.join(names)}.")
    return found
