"""Draw layers anew from their own initialisers, without touching anybody else's random numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Generator, nn
from torch.optim import Optimizer

from swr.errors import ModelError, OptionError

Initialiser = Callable[[nn.Module], object]
"""gives one layer new parameters, in place"""


def own_initialiser(layer: nn.Module) -> None:
    """What torch's layers were made with: ``reset_parameters()``."""
    reset = getattr(layer, "reset_parameters", None)
    if not callable(reset):
        raise ModelError(
            f"{type(layer).__name__} has parameters of its own but no reset_parameters(); "
            "give it one, or pass initialise=, a function that draws a layer anew."
        )
    reset()


def redraw(layers: Iterable[nn.Module], generator: Generator, initialise: Initialiser = own_initialiser) -> None:
    """Initialise the layers again, in place.

    One number of the generator seeds a fork of torch's global random numbers, which initialisers draw from; the
    global state itself is as before.

    generator: on the CPU.
    initialise: called with each layer.
    """
    layers = list(layers)
    seed = int(torch.randint(2**62, (), generator=generator))
    kinds = {p.device for layer in layers for p in layer.parameters(recurse=False)}
    devices = [device for device in kinds if device.type == "cuda"]
    with torch.random.fork_rng(devices=devices), torch.no_grad():
        torch.manual_seed(seed)
        for layer in layers:
            initialise(layer)


def forget(optimizer: Optimizer | None, layers: Iterable[nn.Module]) -> None:
    """Drop the optimizer's state of these layers' parameters, so that it begins anew with them (moments and step count)."""
    if optimizer is not None:
        for layer in layers:
            for p in layer.parameters(recurse=False):
                optimizer.state.pop(p, None)


def check_optimizer_state(value: str) -> str:
    """``"keep"`` or ``"clear"``."""
    if value not in ("keep", "clear"):
        raise OptionError(f'optimizer_state must be "keep" or "clear", found {value!r}.')
    return value
