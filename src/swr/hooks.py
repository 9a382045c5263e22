"""Wire a method to an optimizer: something before, something after every real step.

A method has ``before_step(optimizer)`` and ``after_step(optimizer)``; both run inside ``optimizer.step()``, whoever calls it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch.optim import Optimizer

from swr.errors import AttachError


class Stepped(Protocol):
    """What is called around every optimizer step."""

    def before_step(self, optimizer: Optimizer) -> None:
        """Between backward and the step."""

    def after_step(self, optimizer: Optimizer) -> None:
        """Right after the step."""


class Handle:
    """An attachment to one optimizer; :meth:`remove` undoes it."""

    def __init__(self, optimizer: Optimizer, method: Stepped) -> None:
        self.optimizer = optimizer
        self._hooks = [
            optimizer.register_step_pre_hook(lambda opt, args, kwargs: method.before_step(opt)),
            optimizer.register_step_post_hook(lambda opt, args, kwargs: method.after_step(opt)),
        ]

    @property
    def active(self) -> bool:
        """Whether the hooks are in place."""
        return bool(self._hooks)

    def remove(self) -> None:
        """Detach; a second call does nothing."""
        for hook in self._hooks:
            hook.remove()
        self._hooks = []


def unwrapped(optimizer: Any) -> Optimizer:
    """The torch optimizer itself, below wrappers that keep it as ``.optimizer``."""
    while isinstance(getattr(optimizer, "optimizer", None), Optimizer):
        optimizer = optimizer.optimizer
    if not isinstance(optimizer, Optimizer):
        raise AttachError(f"expected a torch.optim.Optimizer, found {type(optimizer).__name__}.")
    return optimizer


def group_of(optimizer: Optimizer, tensors: Sequence[torch.Tensor]) -> list[int | None]:
    """The index of each tensor's parameter group; None where the optimizer does not hold it."""
    groups = {id(p): i for i, group in enumerate(optimizer.param_groups) for p in group["params"]}
    return [groups.get(id(t)) for t in tensors]
