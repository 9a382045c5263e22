"""Copies of a model to experiment on: in its own precision or in float64, and with negligible epsilons."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from swr.algebra.rules.normalising import EPSILON
from swr.errors import InputsError, ModelError

_EPSILONS = ("eps", "epsilon", "variance_epsilon")  # torch's normalisation layers and most others; Llama, T5, Mistral
_NEGLIGIBLE = 1e-8  # times an epsilon: 1e-13 is nothing beside a variance, and far above the rounding of one in float64


def copied(model: nn.Module, *, double: bool = False) -> nn.Module:
    """A copy of a model, whatever its hooks have left in it.

    Pruning and ``torch.nn.utils.weight_norm`` keep the result of their computation as an attribute, which Python
    cannot copy; their hooks compute it again, so the copy gets the value alone.

    Args:
        model: any model; it is not changed.
        double: whether floating-point tensors become float64, and complex ones complex128.

    Returns:
        The copy, in the same mode.
    """
    registered = {id(tensor) for tensor in (*model.parameters(), *model.buffers())}
    memo: dict[int, Any] = {}
    for module in model.modules():
        for value in pytree.tree_leaves(list(vars(module).values())):
            if isinstance(value, Tensor) and id(value) not in registered:
                memo[id(value)] = (as_double(value.detach()) if double else value.detach()).clone()
    try:
        result = copy.deepcopy(model, memo)
    except Exception as error:
        raise ModelError(
            f"{type(model).__name__} cannot be copied ({first_line(error)}), and only a copy may be rescaled to measure; "
            "keep out of the model what copy.deepcopy refuses."
        ) from error
    return result._apply(as_double) if double else result


def as_double(tensor: Tensor) -> Tensor:
    """Floating-point numbers as float64, complex ones as complex128, everything else as it is."""
    if tensor.is_complex():
        return tensor.to(torch.complex128)
    return tensor.double() if tensor.is_floating_point() else tensor


def shrink_epsilons(model: nn.Module) -> int:
    """Make the epsilons of a model's normalisation layers negligible, in place; returns how many modules have one.

    An epsilon is a number in (0, 1e-3] that a module calls ``eps``, ``epsilon`` or ``variance_epsilon``. What a forward
    writes as a number of its own stays.
    """
    found = 0
    for module in model.modules():
        names = [n for n in _EPSILONS if isinstance(value := vars(module).get(n), float) and 0 < value <= EPSILON]
        for name in names:
            setattr(module, name, vars(module)[name] * _NEGLIGIBLE)
        found += bool(names)
    return found


@contextlib.contextmanager
def aside(model: nn.Module) -> Iterator[None]:
    """Run a copy without gradients and without touching the random state of the devices it is on."""
    devices = sorted({p.device.index for p in model.parameters() if p.is_cuda})
    with torch.no_grad(), torch.random.fork_rng(devices=devices):
        yield


def rejection(model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> InputsError | None:
    """What the model itself says against the example inputs, or None: then it runs."""
    try:
        inputs, named = pytree.tree_map_only(Tensor, torch.clone, (args, dict(kwargs)))
        with aside(model):
            copied(model)(*inputs, **named)
    except ModelError:
        raise
    except Exception as error:
        found = InputsError(
            f"{type(model).__name__} rejects the example inputs ({summary(args, kwargs)}): {first_line(error)}; "
            "pass one batch as its forward takes it."
        )
        found.__cause__ = error
        return found
    return None


def first_line(error: BaseException) -> str:
    """The first line of an error's text, without its full stop."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].rstrip(".") if lines else type(error).__name__


def summary(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """Inputs by precision and shape."""

    def one(value: Any) -> str:
        if isinstance(value, Tensor):
            return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
        return type(value).__name__

    return ", ".join([one(a) for a in args] + [f"{k}={one(v)}" for k, v in kwargs.items()]) or "none"
