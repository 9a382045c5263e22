"""Wire a method to an optimizer: something before, something after every real step, whoever calls ``optimizer.step()``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.optim import Optimizer

from swr.errors import AttachError

Around = Callable[[Optimizer], None]
"""What is called with the optimizer, before or after its step."""


class Handle:
    """An attachment to one optimizer; :meth:`remove` undoes it.

    before, after: called around every step; None costs nothing.
    """

    def __init__(self, optimizer: Optimizer, before: Around | None = None, after: Around | None = None) -> None:
        self.optimizer = optimizer
        self._active = True
        self._hooks = []
        if before is not None:
            self._hooks.append(optimizer.register_step_pre_hook(lambda opt, args, kwargs: before(opt)))
        if after is not None:
            self._hooks.append(optimizer.register_step_post_hook(lambda opt, args, kwargs: after(opt)))

    @property
    def active(self) -> bool:
        """Whether it has not been removed."""
        return self._active

    def remove(self) -> None:
        """Detach; a second call does nothing."""
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        self._active = False


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
