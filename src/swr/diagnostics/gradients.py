"""Gradient norms and update-to-weight ratios."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel

from swr.diagnostics.layer_norms import layer_weights, norms_by_name
from swr.probe import as_args, undisturbed

LossFunction = Callable[[Any, Any], Tensor]
"""a function of outputs and targets that returns the mean loss"""


def gradient_norms(model: nn.Module) -> dict[str, float]:
    """‖∂L/∂p‖ of every parameter that has a ``.grad``.

    >>> model(x).sum().backward()
    >>> list(gradient_norms(model))
    ['0.weight', '0.bias', '3.weight', '3.bias']
    """
    return norms_by_name({name: p.grad for name, p in model.named_parameters() if p.grad is not None})


def gradient_norm(model: nn.Module, batch: tuple[Any, Any], loss_fn: LossFunction) -> float:
    """‖∇L(θ)‖ over all trainable parameters on a batch, in evaluation mode; ``.grad`` is neither read nor written.

    >>> norm = gradient_norm(model, (x, torch.tensor([0, 1])), nn.functional.cross_entropy)

    Args:
        model: any module; it is left as it was.
        batch: inputs (a tensor, or a tuple of positional inputs) and targets.
        loss_fn: a function of outputs and targets that returns the mean loss.
    """
    with loss_on(model, batch, loss_fn) as (loss, parameters):
        gradients = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True)
    return math.hypot(*norms_by_name({str(i): g for i, g in enumerate(gradients) if g is not None}).values())


def saved_weights(model: nn.Module) -> dict[str, Tensor]:
    """A copy of the current weight of every layer, for :func:`update_ratios`."""
    return {name: w.detach().clone() for name, w in layer_weights(model).items()}


@torch.no_grad()
def update_ratios(model: nn.Module, before: Mapping[str, Tensor]) -> dict[str, float]:
    """The update-to-weight ratio ‖W_t − W_{t−1}‖ / ‖W_{t−1}‖ of every layer; layers that were zero are left out.

    >>> net = nn.Linear(2, 1)
    >>> net.weight.data = torch.tensor([[3.0, 4.0]])
    >>> before = saved_weights(net)
    >>> net.weight.data += torch.tensor([[0.0, 0.5]])
    >>> update_ratios(net, before)
    {'weight': 0.1}

    Args:
        model: the model after the optimizer's step.
        before: the result of :func:`saved_weights` before the step.
    """
    weights = {name: w for name, w in layer_weights(model).items() if name in before}
    moved = norms_by_name({name: w - before[name] for name, w in weights.items()})
    sizes = norms_by_name({name: before[name] for name in weights})
    return {name: moved[name] / size for name, size in sizes.items() if size > 0}


@contextlib.contextmanager
def loss_on(model: nn.Module, batch: tuple[Any, Any], loss_fn: LossFunction) -> Iterator[tuple[Tensor, dict[str, Tensor]]]:
    """L(θ) on a batch in evaluation mode, and the leaves to differentiate it by, also twice.

    The leaves share memory with the trainable parameters but are other tensors: hooks and ``.grad`` of the parameters are not
    touched.
    """
    inputs, targets = batch
    leaves = {name: p.detach().requires_grad_() for name, p in model.named_parameters() if p.requires_grad}
    # The fused attention kernels have no second derivative.
    with undisturbed(model), torch.enable_grad(), sdpa_kernel(SDPBackend.MATH):
        yield loss_fn(functional_call(model, leaves, as_args(inputs)), targets), leaves
