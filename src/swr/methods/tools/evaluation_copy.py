"""A slow copy φ of a network θ, which is evaluated in its place.

Whenever the model is called in evaluation mode it runs with φ, and holds θ again afterwards, so that a loop needs no line more.
Learnable parameters and buffers of floating-point numbers (running statistics) have a copy; whole numbers stay θ's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from swr.methods.base import learnable, restore


class EvaluationCopy:
    """φ, and the hooks that bring it in.

    >>> layer = nn.Linear(1, 1, bias=False)
    >>> layer.weight.data.fill_(2.0)
    tensor([[2.]])
    >>> copy = EvaluationCopy(layer)
    >>> layer.weight.data.fill_(4.0)
    tensor([[4.]])
    >>> copy.average(0.5)
    >>> layer.eval()(torch.ones(1, 1)), layer.train()(torch.ones(1, 1))
    (tensor([[3.]], grad_fn=<MmBackward0>), tensor([[4.]], grad_fn=<MmBackward0>))

    Args:
        model: what is trained; φ begins as it is now.
    """

    def __init__(self, model: nn.Module) -> None:
        buffers = {name: buffer for name, buffer in model.named_buffers() if buffer.is_floating_point()}
        tensors: dict[str, Tensor] = {**learnable(model), **buffers}
        self.tensors = {name: tensor.detach().clone() for name, tensor in tensors.items()}
        """φ by name"""
        self._pairs = list(tensors.values()), list(self.tensors.values())
        self._live: list[Tensor] | None = None
        """θ, while the model holds φ"""
        self._called = False
        """whether it was a call of the model that brought φ in"""
        self._hooks = [
            model.register_forward_pre_hook(self._enter),
            model.register_forward_hook(self._leave, always_call=True),
        ]

    @torch.no_grad()
    def average(self, momentum: float) -> None:
        """φ <- μ φ + (1 - μ) θ."""
        live, slow = self._pairs
        torch._foreach_lerp_(slow, live, 1 - momentum)

    @torch.no_grad()
    def write_back(self) -> None:
        """θ <- φ."""
        live, slow = self._pairs
        torch._foreach_copy_(live, slow)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Inside, the model holds φ."""
        self._exchange()
        try:
            yield
        finally:
            self._return()

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Take φ from a state."""
        restore(self.tensors, state)

    def close(self) -> None:
        """The model is evaluated as it is again."""
        for hook in self._hooks:
            hook.remove()

    def _enter(self, module: nn.Module, inputs: Any) -> None:
        if not module.training and self._live is None:
            self._exchange()
            self._called = True

    def _leave(self, module: nn.Module, inputs: Any, outputs: Any) -> None:
        if self._live is not None and self._called:
            self._return()

    @torch.no_grad()
    def _exchange(self) -> None:
        live, slow = self._pairs
        self._live, self._called = list(torch._foreach_clone(live)), False
        torch._foreach_copy_(live, slow)

    @torch.no_grad()
    def _return(self) -> None:
        assert self._live is not None
        torch._foreach_copy_(self._pairs[0], self._live)
        self._live = None
