"""Lipschitz projection: bound the operator norm of every layer (Gouk et al., 2021)."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from swr.checks import choice, positive
from swr.methods.base import Method
from swr.methods.tools.layers import affine_layers, is_convolution, normalisations, wide
from swr.methods.tools.spectral_norms import Map, PowerIteration, input_sizes, operator_map
from swr.methods.tools.tuning import along


def operator_norm(blocks: Tensor, p: float) -> Tensor:
    """‖W‖_1, the largest sum of |w| that leaves an input, or ‖W‖_∞, the largest that enters an output.

    Exact for fully connected layers; for convolutions the norm away from the border, with stride 1.

    >>> operator_norm(torch.tensor([[[1.0, -3.0], [2.0, 0.0]]]), inf)
    tensor(4.)

    Args:
        blocks: W as [groups, outputs, inputs, *kernel].
        p: 1 or infinity.
    """
    others = (2 if p == inf else 1, *range(3, blocks.ndim))
    return wide(blocks).abs().sum(others).amax()


class Lipschitz(Method):
    """Scale every layer down to an operator norm of λ.

        W <- W / max(1, ‖W‖_p / λ),   γ <- γ / max(1, max_i |γ_i| / √(var_i + ε) / λ)  for batch normalisation

    ‖W‖_2 is the spectral norm of the layer; of a convolution, of the whole operator at its input's size, stride and padding.

    >>> method = Lipschitz(model, x, bound=2.0)
    >>> handle = method.attach(optimizer)

    When:
        After every step of the optimizer; for p = 2 with one power iteration from vectors that are kept. (The authors start
        from new random vectors with two iterations, which misses part of σ at every step.)

    Touches:
        Weights of convolutions and fully connected layers, the head included, and gains of batch normalisation, whose ε and
        running variance are the layer's own. Biases and shifts do not count.

    Keeps:
        For p = 2 one vector per layer.

    Args:
        example_inputs: a batch of inputs; for p = 2 the norm of a convolution depends on their size.
        bound: λ for all layers, above 0; infinity allows anything. 8 suited the authors' VGG on CIFAR-10 with p = 2.
        p: 1, 2 or infinity.
        convolution, linear, normalisation: λ of these layers, where it is another.

    References:
        H. Gouk, E. Frank, B. Pfahringer, M. Cree, 2021, "Regularisation of Neural Networks by Enforcing Lipschitz Continuity",
        arXiv 1804.04368.
    """

    name = "lipschitz"
    title = "Lipschitz projection"
    tuning = along("bound", 1.0, 2.0, 4.0, 8.0, 16.0)
    symbols: ClassVar[Mapping[str, str]] = {
        "bound": "λ",
        "convolution": "λ_conv",
        "linear": "λ_fc",
        "normalisation": "λ_bn",
    }

    def __init__(
        self,
        model: nn.Module,
        example_inputs: Any = None,
        *,
        bound: float = 2.0,
        p: float = 2,
        convolution: float | None = None,
        linear: float | None = None,
        normalisation: float | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(model, example_inputs, seed=seed)
        choice(float(p) if type(p) is int else p, "p", (1.0, 2.0, inf))
        self.p = float(p)
        self.bound = positive(bound, "bound λ")
        of_convolutions = self.bound if convolution is None else positive(convolution, "convolution λ_conv")
        of_linears = self.bound if linear is None else positive(linear, "linear λ_fc")
        self._gain_bound = self.bound if normalisation is None else positive(normalisation, "normalisation λ_bn")
        bounds = [(layer, of_convolutions if is_convolution(layer.module) else of_linears) for layer in affine_layers(model)]
        self._layers = [layer for layer, limit in bounds if limit < inf]
        self._bounds = torch.tensor([limit for _, limit in bounds if limit < inf])
        bounded = normalisations(model) if self._gain_bound < inf else []
        self._gains = [(layer.gain, layer.module) for layer in bounded if isinstance(layer.module, _BatchNorm)]
        self._power: PowerIteration | None = None
        if self.p == 2:
            self._sizes = input_sizes(model, example_inputs, self._layers)
            self._power = PowerIteration(self._maps(), self.generator)

    @torch.no_grad()
    def step(self) -> None:
        """Project."""
        if self._layers:
            weights: list[Tensor] = [layer.weight for layer in self._layers]
            if self._power is not None:
                norms = self._power.refine(self._maps())
            else:
                norms = torch.stack([operator_norm(layer.blocks(), self.p) for layer in self._layers])
            if self._bounds.device != norms.device:
                self._bounds = self._bounds.to(norms.device)
            torch._foreach_mul_(weights, list((self._bounds / norms).clamp_(max=1.0).unbind()))
        for gain, module in self._gains:
            if module.running_var is not None:
                slope = (gain.abs() / (module.running_var + module.eps).sqrt()).amax()
                gain.mul_((self._gain_bound / slope).clamp_(max=1.0))

    def _maps(self) -> dict[str, Map]:
        return {layer.name: operator_map(layer, self._sizes) for layer in self._layers}

    def state(self) -> dict[str, Any]:
        """What has to be saved."""
        return {"vectors": {} if self._power is None else dict(self._power.vectors)}

    def load_state(self, state: dict[str, Any]) -> None:
        """The reverse of :meth:`state`."""
        if self._power is not None:
            self._power.load(state["vectors"])
