"""Which part of a network a layer belongs to, by its type: the feature extractor or the classifier."""

from __future__ import annotations

from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvNd

NORMALISATION: tuple[type[nn.Module], ...] = (_NormBase, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm)


def is_convolution(module: nn.Module) -> bool:
    """A convolution of any dimension, transposed or not."""
    return isinstance(module, _ConvNd)


def convolutions(model: nn.Module) -> list[nn.Module]:
    """The convolutions, in registration order."""
    return [module for module in model.modules() if is_convolution(module)]


def linears(model: nn.Module) -> list[nn.Linear]:
    """The fully connected layers, in registration order."""
    return [module for module in model.modules() if isinstance(module, nn.Linear)]


def parts(model: nn.Module) -> dict[str, str]:
    """``"features"`` or ``"classifier"`` for every parameter, by its name.

    Convolutions are features, fully connected layers the classifier. What else has parameters (normalisation layers, in
    the first place) belongs to the convolution or fully connected layer registered before it; if there is none, to the first.

    >>> parts(nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4, 2, bias=False)))
    {'0.weight': 'features', '1.weight': 'features', '1.bias': 'features', '3.weight': 'classifier'}
    """
    found: dict[str, str] = {}
    waiting: list[str] = []
    part = ""
    for prefix, module in model.named_modules():
        names = [f"{prefix}.{name}" if prefix else name for name, _ in module.named_parameters(recurse=False)]
        if is_convolution(module) or isinstance(module, nn.Linear):
            part = "classifier" if isinstance(module, nn.Linear) else "features"
            found.update(dict.fromkeys(waiting, part))
            waiting = []
        if part:
            found.update(dict.fromkeys(names, part))
        else:
            waiting += names
    found.update(dict.fromkeys(waiting, "features"))
    return {name: found[name] for name, _ in model.named_parameters(remove_duplicate=False)}


def weights(model: nn.Module) -> dict[str, nn.Parameter]:
    """The weight of every layer that has one (gains of normalisation layers included), by name, once."""
    of_layers = {id(module.weight) for module in model.modules() if isinstance(getattr(module, "weight", None), nn.Parameter)}
    return {name: p for name, p in model.named_parameters() if id(p) in of_layers}
