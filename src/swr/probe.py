"""Run a network for a measurement, and leave it as it was."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree


@contextlib.contextmanager
def undisturbed(model: nn.Module) -> Iterator[None]:
    """Evaluation mode inside; afterwards modes, buffers and random numbers are restored bit for bit.

    Modes are set as attributes, because ``train()`` and ``eval()`` of some models do more, such as merging adapters. Forward
    hooks run as in any evaluation.

    >>> with undisturbed(model):
    ...     model.training
    False

    Args:
        model: any module.
    """
    modules = list(model.modules())
    modes = [module.training for module in modules]
    buffers = [
        (module._buffers, key, buffer, buffer._version, buffer.detach().clone())
        for module in modules
        for key, buffer in module._buffers.items()
        if buffer is not None
    ]
    cuda = sorted({p.device.index for p in model.parameters() if p.device.type == "cuda"})
    try:
        with torch.random.fork_rng(devices=cuda):
            for module in modules:
                module.training = False
            yield
    finally:
        for module, mode in zip(modules, modes, strict=True):
            module.training = mode
        with torch.no_grad():
            for owner, key, buffer, version, saved in buffers:
                owner[key] = buffer
                if buffer._version != version:
                    buffer.copy_(saved)


def evaluated(model: nn.Module, inputs: Any) -> Any:
    """The output of a model in evaluation mode; the model is left as it was.

    Args:
        model: any module.
        inputs: a batch of inputs; a tuple for several arguments.
    """
    with undisturbed(model), torch.no_grad():
        return model(*as_args(inputs))


def outputs(model: nn.Module, inputs: Any) -> torch.Tensor:
    """f_θ(x) in evaluation mode, with all floating-point outputs in one vector."""
    leaves = pytree.tree_leaves(evaluated(model, inputs))
    found = [leaf.flatten() for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()]
    return torch.cat(found) if found else torch.zeros(0)


def as_args(example_inputs: Any) -> tuple[Any, ...]:
    """Positional inputs: a tuple or list as it is, anything else alone, a named tuple such as ``PackedSequence`` too.

    >>> as_args([1, 2]), as_args("one")
    ((1, 2), ('one',))
    """
    return tuple(example_inputs) if type(example_inputs) in (tuple, list) else (example_inputs,)
