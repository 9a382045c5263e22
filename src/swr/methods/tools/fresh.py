"""Re-initialise layers by their own initialisers, in place or as values to take parts of.

Torch's global random numbers stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Generator, Tensor, nn
from torch.optim import Optimizer

from swr.errors import ModelError, OptionError
from swr.methods.tools.optimizer_state import Policy, forget

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


def forget_layers(optimizer: Optimizer | None, layers: Iterable[nn.Module], policy: Policy) -> None:
    """Make the optimizer forget layers that were re-initialised, by a policy of :mod:`swr.methods.tools.optimizer_state`."""
    for layer in layers:
        for p in layer.parameters(recurse=False):
            forget(optimizer, p, policy=policy)


def fresh_values(
    layers: Iterable[nn.Module], generator: Generator, initialise: Initialiser = own_initialiser
) -> dict[nn.Parameter, Tensor]:
    """What the layers' own parameters would be after a new draw; the layers and their buffers are as before.

    The initialiser sees whole layers, so that an entry of a fresh weight is drawn with the fan-in of the layer.

    >>> layer = nn.Linear(2, 1)
    >>> fresh = fresh_values([layer], torch.Generator())
    >>> torch.equal(fresh[layer.weight], layer.weight)
    False

    Args:
        generator: on the CPU.
        initialise: called with each layer.
    """
    layers = list(dict.fromkeys(layers))
    tensors = [t for layer in layers for t in (*layer.parameters(recurse=False), *layer.buffers(recurse=False))]
    kept = [t.detach().clone() for t in tensors]
    try:
        redraw(layers, generator, initialise)
        return {p: p.detach().clone() for layer in layers for p in layer.parameters(recurse=False)}
    finally:
        with torch.no_grad():
            for tensor, old in zip(tensors, kept, strict=True):
                tensor.copy_(old)


def inside(model: nn.Module, names: Sequence[str]) -> list[nn.Module]:
    """The modules with parameters of their own among and below those of these names, in registration order.

    >>> inside(nn.Sequential(nn.Sequential(nn.Linear(2, 2), nn.ReLU()), nn.Linear(2, 1)), ["0"])
    [Linear(in_features=2, out_features=2, bias=True)]
    """
    modules = dict(model.named_modules())
    if isinstance(names, str) or (unknown := [name for name in names if name not in modules]):
        wrong = names if isinstance(names, str) else unknown[0]
        raise OptionError(
            f"layers are given as a list of names, found {wrong!r}; the model has {', '.join(filter(None, modules))}."
        )
    chosen = {id(child) for name in names for child in modules[name].modules()}
    return [m for m in model.modules() if id(m) in chosen and next(m.parameters(recurse=False), None) is not None]
