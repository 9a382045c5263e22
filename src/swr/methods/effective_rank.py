"""The effective-rank penalty: keep the singular values of the last features close to each other (Kumar et al., 2020)."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import Tensor, nn

from swr.errors import ModelError, OptionError
from swr.methods.affine import wide
from swr.methods.layers import linears
from swr.methods.penalty import Penalty


def spectral_spread(features: Tensor) -> Tensor:
    """σ_max(Φ)² - σ_min(Φ)² of a matrix, from the eigenvalues of the smaller of ΦᵀΦ and ΦΦᵀ.

    Their gradients stay finite where singular values coincide.

    >>> spectral_spread(torch.tensor([[3.0, 0.0], [0.0, 1.0], [0.0, 0.0]]))
    tensor(8.)
    """
    tall = features.shape[0] >= features.shape[1]
    values: Tensor = torch.linalg.eigvalsh(features.mT @ features if tall else features @ features.mT)
    return values[-1] - values[0]


class EffectiveRank(Penalty):
    """Penalise the spread of the singular values of the penultimate features of the batch.

        loss + α (σ_max(Φ)² - σ_min(Φ)²),   Φ = [examples, features], what enters the last layer

    >>> method = EffectiveRank(model, coefficient=1e-3)
    >>> loss = model(x).square().mean()
    >>> penalty = method.penalty()

    When: in the loss. A hook keeps what the last forward pass in training mode gave to the head; :meth:`penalty` takes it,
        and is None before the next forward pass. Under autocast Φ is made single precision.
    Touches: whatever the features depend on. Φ = 0 is a minimiser too, so watch the features' norm. With fewer examples than
        features σ_min is the smallest of as many values as there are examples: α depends on the batch size.
    Keeps: nothing.
    Source: A. Kumar, R. Agarwal, D. Ghosh, S. Levine, 2020, "Implicit Under-Parameterization Inhibits Data-Efficient Deep
        Reinforcement Learning", arXiv 2010.14498.

    coefficient: α, at least 0.
    head: name of the nn.Linear whose input are the features; by default the last one.
    """

    title = "effective rank"
    symbols = {"coefficient": "α"}  # noqa: RUF012

    def __init__(
        self,
        model: nn.Module,
        example_inputs: Any = None,
        *,
        coefficient: float = 1e-3,
        head: str | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(model, example_inputs, coefficient=coefficient, seed=seed)
        self._features: Tensor | None = None
        layer = _head(model, head)
        self._hook = layer.register_forward_pre_hook(_Listener(self)) if self.coefficient else None

    def value(self) -> Tensor | None:
        """σ_max² - σ_min² of the features of the last forward pass, which are given up."""
        features, self._features = self._features, None
        return None if features is None else spectral_spread(wide(features).reshape(-1, features.shape[-1]))

    def close(self) -> None:
        """Detach from the optimizer and remove the hook."""
        super().close()
        if self._hook is not None:
            self._hook.remove()
        self._features = None


class _Listener:
    """Hands what enters the head to the method; copied or pickled with the model, it has nobody to tell."""

    def __init__(self, method: EffectiveRank | None = None) -> None:
        self._method = weakref.ref(method) if method is not None else lambda: None

    def __call__(self, module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        method = self._method()
        if method is not None and module.training and torch.is_grad_enabled():
            method._features = inputs[0]

    def __reduce__(self) -> tuple[type[_Listener], tuple[()]]:
        return _Listener, ()


def _head(model: nn.Module, name: str | None) -> nn.Linear:
    if name is None:
        found = linears(model)
        if not found:
            raise ModelError("the model has no nn.Linear, so it is not clear what its features are: end it with one.")
        return found[-1]
    layer = dict(model.named_modules()).get(name)
    if not isinstance(layer, nn.Linear):
        known = ", ".join(n for n, module in model.named_modules() if isinstance(module, nn.Linear))
        raise OptionError(f"head must be the name of an nn.Linear of the model ({known or 'it has none'}), found {name!r}.")
    return layer
