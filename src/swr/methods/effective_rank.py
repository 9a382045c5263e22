"""The effective-rank penalty: keep the singular values of the last features close to each other (Kumar et al., 2020)."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from swr.errors import AttachError, ModelError, OptionError
from swr.methods.bases.penalty import Penalty
from swr.methods.tools.layers import linears, wide
from swr.methods.tools.penalty_gradients import add_to_gradients, held_by
from swr.methods.tools.tuning import DECADES
from swr.methods.tools.unseen import Unseen


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
    >>> handle = method.attach(optimizer)

    When:
        In every training pass with gradients. Attached, the gradient of the penalty is computed there, by a second backward
        pass through the features, and added before the step: the mean over the passes since the last step, and over the
        processes of DistributedDataParallel. In the loss, :meth:`penalty` takes the features of the last training pass, is None
        before the next one, and shares the backward pass of the loss. Under autocast Φ is made single precision.

    Touches:
        Whatever the features depend on. Φ = 0 is a minimiser too, so watch the features' norm. With fewer examples than
        features σ_min is the smallest of as many values as there are examples: α depends on the batch size.

    Keeps:
        Nothing from step to step.

    Args:
        coefficient: α, at least 0.
        head: name of the nn.Linear whose input are the features; by default the last one.

    References:
        A. Kumar, R. Agarwal, D. Ghosh, S. Levine, 2020, "Implicit Under-Parameterization Inhibits Data-Efficient Deep
        Reinforcement Learning", arXiv 2010.14498.
    """

    name = "effective-rank"
    title = "effective rank"
    tuning = DECADES
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
        self._passes = _Passes()
        self._unseen = Unseen()
        layer = _head(model, head)
        self._hook = layer.register_forward_pre_hook(_Listener(self)) if self.coefficient else None

    def value(self) -> Tensor | None:
        """σ_max² - σ_min² of the features of the last forward pass, which are given up."""
        features, self._features = self._features, None
        return None if features is None else _spread(features)

    def see(self, features: Tensor) -> None:
        """What enters the head in a training pass."""
        if self.attached and self._penalty_in == "gradients":
            self._passes.add(self.model, self._penalised(features))
        else:
            self._features = features

    def add_penalty(self, optimizer: Optimizer) -> None:
        """∇ <- ∇ + the mean gradient of the passes since the last step."""
        if not self.coefficient:
            return
        if self._features is not None:
            raise AttachError(
                "the pass was compiled, so the penalty of its features cannot be differentiated before the step; call "
                'attach(optimizer, penalty="loss") and add penalty() to the loss, or train the plain model.'
            )
        passes, self._passes = self._passes, _Passes()
        self._added = None
        if not self._unseen.count(not passes.count):
            self._added, gradients = passes.mean()
            held = [p for p in held_by(optimizer, list(self.model.parameters())) if p in gradients]
            add_to_gradients(optimizer, held, [gradients[p] for p in held])

    def close(self) -> None:
        """Detach from the optimizer and remove the hook."""
        super().close()
        if self._hook is not None:
            self._hook.remove()
        self._features = None
        self._passes = _Passes()

    def _penalised(self, features: Tensor) -> Tensor:
        with torch.autocast(features.device.type, enabled=False):
            return self.coefficient * _spread(features)


class _Passes:
    """The penalties of the passes since the last step, and their gradients, added up."""

    def __init__(self) -> None:
        self.count = 0
        self._value: Tensor | None = None
        self._gradients: dict[nn.Parameter, Tensor] = {}
        self._group: Any = None
        """the processes of DistributedDataParallel, each with a part of the batch"""

    def add(self, model: nn.Module, penalty: Tensor) -> None:
        """A pass; its graph stays for the backward pass of the loss."""
        self.count += 1
        self._value = penalty.detach() if self._value is None else self._value + penalty.detach()
        wrapper = getattr(DistributedDataParallel, "_active_ddp_module", None)
        self._group = wrapper.process_group if wrapper is not None else None
        if not penalty.requires_grad:  # all that the features depend on is frozen
            return
        parameters = [p for p in model.parameters() if p.requires_grad]
        gradients = torch.autograd.grad(penalty, parameters, retain_graph=True, allow_unused=True)
        found = {p: g for p, g in zip(parameters, gradients, strict=True) if g is not None}
        if not found:
            raise AttachError(
                "the features depend on other tensors than the model's parameters (fully_shard); call "
                'attach(optimizer, penalty="loss") and add penalty() to the loss.'
            )
        for p, gradient in found.items():
            self._gradients[p] = self._gradients[p] + gradient if p in self._gradients else gradient

    def mean(self) -> tuple[Tensor | None, dict[nn.Parameter, Tensor]]:
        """The mean penalty, and its gradients, over the passes and the processes."""
        gradients = list(self._gradients.values())
        share = 1 / self.count
        if self._group is not None:
            share /= torch.distributed.get_world_size(self._group)
            for gradient in gradients:
                torch.distributed.all_reduce(gradient, group=self._group)
        if share != 1 and gradients:
            torch._foreach_mul_(gradients, share)
        value = None if self._value is None else self._value / self.count
        return value, dict(zip(self._gradients, gradients, strict=True))


class _Listener:
    """Hands what enters the head to the method; copied or pickled with the model, it does nothing."""

    def __init__(self, method: EffectiveRank | None = None) -> None:
        self._method = weakref.ref(method) if method is not None else lambda: None

    def __call__(self, module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        method = self._method()
        if method is None or not (module.training and torch.is_grad_enabled()):
            return
        if torch.compiler.is_compiling():
            method._features = inputs[0]
        else:
            method.see(inputs[0])

    def __reduce__(self) -> tuple[type[_Listener], tuple[()]]:
        return _Listener, ()


def _spread(features: Tensor) -> Tensor:
    return spectral_spread(wide(features).reshape(-1, features.shape[-1]))


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
