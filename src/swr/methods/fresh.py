"""Re-initialise layers by their own initialisers; torch's global random numbers stay as they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Generator, nn
from torch.optim import Optimizer

from swr.errors import ModelError
from swr.methods.optimizer_state import forget

Initialiser = Callable[[nn.Module], object]
"""gives one layer new parameters, in place"""


def own_initialiser(layer: nn.Module) -> None:
    """What torch's layers were made with: ``reset_parameters()``."""
    reset = getattr(layer, "reset_parameters", None)
    if not callable(reset):
        raise ModelError(
            f"{type(layer).__name__} has parameters of its own but no reset_parameters(); "
            "give it one, or pass initialise=, a function that re-initialises a layer."
        )
    reset()


def redraw(layers: Iterable[nn.Module], generator: Generator, initialise: Initialiser = own_initialiser) -> None:
    """Initialise the layers again, in place.

    One number of the generator seeds a fork of torch's global random numbers, which initialisers draw from; the
    global state itself is as before.

    Args:
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


def forget_layers(optimizer: Optimizer | None, layers: Iterable[nn.Module], policy: str) -> None:
    """What the optimizer forgets of layers that were re-initialised, by a policy of :mod:`swr.methods.optimizer_state`."""
    for layer in layers:
        for p in layer.parameters(recurse=False):
            forget(optimizer, p, policy=policy)
