"""Gradients of the loss on new data, for methods that look at it before they act."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Generator, Tensor, nn
from torch.func import functional_call

from swr.errors import OptionError
from swr.methods.base import Batches, LossFunction

Gradient = Callable[[Tensor, Tensor], tuple[Tensor, ...]]
"""inputs, targets -> ∇L of each parameter"""


@contextmanager
def gradients(
    model: nn.Module, parameters: Sequence[Tensor], loss_fn: LossFunction, generator: Generator
) -> Iterator[Gradient]:
    """Inside: a function from a batch to the gradients that a training step on it would have; nothing else is changed.

    The model runs in training mode on copies of its buffers, so that running statistics stay as they are; dropout draws
    from the generator; ``.grad`` is not touched. A parameter that the loss does not depend on has the gradient 0.

    >>> with gradients(model, [model[0].weight], nn.functional.cross_entropy, torch.Generator()) as gradient:
    ...     found = gradient(x, torch.tensor([0, 1]))
    >>> found[0].shape
    torch.Size([4, 1, 3, 3])
    """
    modes = [(module, module.training) for module in model.modules()]
    buffers = {name: buffer.detach().clone() for name, buffer in model.named_buffers()}
    devices = {p.device for p in parameters if p.device.type == "cuda"}

    def gradient(inputs: Tensor, targets: Tensor) -> tuple[Tensor, ...]:
        with torch.enable_grad():
            loss = loss_fn(functional_call(model, buffers, (inputs,)), targets)
            return torch.autograd.grad(loss, list(parameters), allow_unused=True, materialize_grads=True)

    seed = int(torch.randint(2**62, (), generator=generator))
    with torch.random.fork_rng(devices=list(devices)):
        torch.manual_seed(seed)
        try:
            model.train()
            yield gradient
        finally:
            for module, mode in modes:
                module.training = mode


def new_data(title: str, batches: Batches | None, loss_fn: LossFunction | None) -> tuple[Batches, LossFunction]:
    """Both, or an error that says how to hand them over."""
    if batches is None or loss_fn is None:
        raise OptionError(f"{title} looks at the new data: call new_task(batches, loss_fn) with batches of inputs and targets.")
    return batches, loss_fn
