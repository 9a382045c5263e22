"""Attach a method to an optimizer: callbacks before and after every real step, also if a framework calls ``optimizer.step()``.

The hooks are excluded from ``torch.compile``: a compiled ``optimizer.step`` has the same graphs with and without them.

Copying or unpickling an optimizer drops its hooks. An attached optimizer therefore has a mark in ``optimizer.defaults``, which
copies keep and checkpoints do not. One global hook on all optimizers warns when a marked optimizer steps without its hooks.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook

from swr.errors import AttachError, AttachWarning

Around = Callable[[Optimizer], None]
"""a callback that gets the optimizer, before or after its step"""

Added = Callable[[], torch.Tensor | None]
"""the term to add to a closure's loss because ``before`` added its gradient to the gradients; None for no term"""

_MARK = "swr_attached"  # in optimizer.defaults, which copies keep
_HANDLES = "_swr_handles"  # an attribute, which copies lose: the active handles
_watching = False


class Handle:
    """An attachment to one optimizer; :meth:`remove` undoes it.

    A copy of a handle, or one from another process, is not attached to anything.

    Args:
        optimizer: the optimizer to attach to.
        before: called between backward and the update; with None no hook is registered.
        after: called after the update; with None no hook is registered.
        added: called after ``before`` if the step has a closure, because a line search compares the loss with the gradients.
        owner: the attached object, for callers of :func:`handles_of`.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        before: Around | None = None,
        after: Around | None = None,
        added: Added | None = None,
        *,
        owner: object = None,
    ) -> None:
        self._optimizer: Callable[[], Optimizer | None] = weakref.ref(optimizer)
        self.owner = owner
        self._hooks = []
        if before is not None:
            self._hooks.append(optimizer.register_step_pre_hook(torch.compiler.disable(_after_backward(before, added))))
        if after is not None:
            self._hooks.append(optimizer.register_step_post_hook(torch.compiler.disable(lambda opt, args, kwargs: after(opt))))
        self._active = True
        vars(optimizer).setdefault(_HANDLES, []).append(self)
        optimizer.defaults[_MARK] = True
        _watch()

    @property
    def optimizer(self) -> Optimizer | None:
        """The optimizer, while it exists."""
        return self._optimizer()

    @property
    def active(self) -> bool:
        """Whether it has not been removed and its optimizer still exists."""
        return self._active and self._optimizer() is not None

    def remove(self) -> None:
        """Detach; a second call does nothing."""
        optimizer = self._optimizer()
        if self._active and optimizer is not None:
            for hook in self._hooks:
                hook.remove()
            vars(optimizer)[_HANDLES].remove(self)
            if not vars(optimizer)[_HANDLES]:
                del vars(optimizer)[_HANDLES], optimizer.defaults[_MARK]
        self._active = False

    def __reduce__(self) -> tuple[Any, ...]:
        return _detached, ()


def _after_backward(before: Around, added: Added | None) -> Callable[..., Any]:
    """A hook that calls ``before`` between backward and the update, also if a closure runs backward inside the step."""

    def hook(optimizer: Optimizer, args: Any, kwargs: Any) -> Any:
        closure = args[1] if len(args) > 1 else kwargs.get("closure")
        if closure is None:
            return before(optimizer)

        def evaluated() -> Any:
            loss = closure()
            before(optimizer)
            more = None if added is None or loss is None else added()
            return loss if more is None else loss + more

        if len(args) > 1:
            return (args[0], evaluated, *args[2:]), kwargs
        return args, {**kwargs, "closure": evaluated}

    return hook


def _detached() -> Handle:
    handle = Handle.__new__(Handle)
    handle._optimizer, handle._hooks, handle._active, handle.owner = _nothing, [], False, None
    _watch()
    return handle


def _nothing() -> None:
    """Stands for a reference to an optimizer that no longer exists."""


def _watch() -> None:
    """Check after every step of any optimizer whether it is a copy that lost its hooks; starts with the first attachment."""
    global _watching
    if not _watching:
        _watching = True
        register_optimizer_step_post_hook(torch.compiler.disable(_look))


def _look(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
    if _MARK in optimizer.defaults and _HANDLES not in vars(optimizer):
        del optimizer.defaults[_MARK]  # warn once
        warnings.warn(
            f"this {type(optimizer).__name__} is a copy of an optimizer that a method was attached to: copying and unpickling "
            "drop hooks, so the method no longer acts. Build the method on the model whose parameters this optimizer "
            "holds, load_state_dict() its state, and attach() it to this optimizer.",
            AttachWarning,
            stacklevel=4,
        )


def handles_of(optimizer: Optimizer) -> list[Handle]:
    """The active attachments of an optimizer."""
    return list(vars(optimizer).get(_HANDLES, ()))


def unwrapped(optimizer: Any) -> Optimizer:
    """The torch optimizer itself, unwrapped from objects that keep it as ``.optimizer``.

    Raises:
        AttachError: there is no ``torch.optim.Optimizer`` inside.
    """
    while isinstance(getattr(optimizer, "optimizer", None), Optimizer):
        optimizer = optimizer.optimizer
    if not isinstance(optimizer, Optimizer):
        raise AttachError(f"expected a torch.optim.Optimizer, found {type(optimizer).__name__}.")
    return optimizer


def refuse_strangers(optimizer: Optimizer, model: nn.Module) -> None:
    """Raise :class:`~swr.AttachError` unless the optimizer holds parameters of the model."""
    if all(place is None for place in group_of(optimizer, list(model.parameters()))):
        raise AttachError(
            "the optimizer holds none of this model's parameters; build it from model.parameters() of the same model, "
            "after wrapping (a copied or unpickled optimizer holds copies)."
        )


def attachable(optimizer: Any, model: nn.Module, handle: Handle | None) -> Optimizer:
    """The torch optimizer to attach to: unwrapped, with parameters of the model.

    Args:
        optimizer: an optimizer, or a wrapper such as Accelerate's.
        model: what the method acts on.
        handle: of an earlier attachment, which must be removed first.
    """
    if handle is not None and handle.active:
        raise AttachError("already attached to an optimizer; call remove() on the first handle before attaching again.")
    found = unwrapped(optimizer)
    refuse_strangers(found, model)
    return found


def group_of(optimizer: Optimizer, tensors: Sequence[torch.Tensor]) -> list[int | None]:
    """The index of each tensor's parameter group; None where the optimizer does not hold it."""
    groups = {id(p): i for i, group in enumerate(optimizer.param_groups) for p in group["params"]}
    return [groups.get(id(t)) for t in tensors]
