"""The layers of a network, by their type: features and classifier, affine maps W x + b, and what normalises between them."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvNd

Part = Literal["features", "classifier"]
"""convolutions with what belongs to them, and the fully connected part"""

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


def parts(model: nn.Module) -> dict[str, Part]:
    """``"features"`` or ``"classifier"`` for every parameter, by its name.

    Convolutions are features, fully connected layers the classifier. What else has parameters (normalisation layers, in
    the first place) belongs to the convolution or fully connected layer registered before it; if there is none, to the first.

    >>> parts(nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4, 2, bias=False)))
    {'0.weight': 'features', '1.weight': 'features', '1.bias': 'features', '3.weight': 'classifier'}
    """
    found: dict[str, Part] = {}
    waiting: list[str] = []
    part: Part | None = None
    for prefix, module in model.named_modules():
        names = [f"{prefix}.{name}" if prefix else name for name, _ in module.named_parameters(recurse=False)]
        if is_convolution(module) or isinstance(module, nn.Linear):
            part = "classifier" if isinstance(module, nn.Linear) else "features"
            found.update(dict.fromkeys(waiting, part))
            waiting = []
        if part is not None:
            found.update(dict.fromkeys(names, part))
        else:
            waiting += names
    found.update(dict.fromkeys(waiting, "features"))
    return {name: found[name] for name, _ in model.named_parameters(remove_duplicate=False)}


def weights(model: nn.Module) -> dict[str, nn.Parameter]:
    """The weight of every layer that has one (gains of normalisation layers included), by name, once."""
    of_layers = {id(module.weight) for module in model.modules() if isinstance(getattr(module, "weight", None), nn.Parameter)}
    return {name: p for name, p in model.named_parameters() if id(p) in of_layers}


class Affine(NamedTuple):
    """A fully connected layer, a convolution, or the input projections of an attention, which count as one layer.

    Attributes:
        name: of the weight.
        module: where it lives.
        weight: W.
        biases: b, if there is one; several where layers share W.
    """

    name: str
    module: nn.Module
    weight: nn.Parameter
    biases: tuple[nn.Parameter, ...] = ()

    def blocks(self) -> Tensor:
        """W as [groups, outputs, inputs, *kernel], outputs and inputs counted per group: a view, in any layout.

        >>> affine_layers(nn.Conv2d(6, 4, 3, groups=2))[0].blocks().shape
        torch.Size([2, 2, 3, 3, 3])
        """
        groups, transposed = (1, False)
        if isinstance(self.module, _ConvNd):
            groups, transposed = self.module.groups, self.module.transposed
        grouped = self.weight.unflatten(0, (groups, -1))
        view: Tensor = grouped.transpose(1, 2) if transposed else grouped
        return view

    def matrix(self) -> Tensor:
        """W as [outputs, inputs * kernel], in at least single precision; can be differentiated."""
        return wide(self.blocks()).flatten(0, 1).flatten(1)


def affine_layers(model: nn.Module, *, head: bool = True) -> list[Affine]:
    """Every such layer whose weight is trained, in registration order; a tied weight once.

    Args:
        head: False leaves out the last one, which gives the network's output.
    """
    names = {id(p): name for name, p in model.named_parameters()}
    found: dict[int, Affine] = {}
    seen: set[int] = set()
    for module in model.modules():
        for weight, bias in _weights_of(module):
            if not isinstance(weight, nn.Parameter):  # absent, or computed from others
                continue
            layer = found.get(id(weight), Affine(names[id(weight)], module, weight))
            if isinstance(bias, nn.Parameter) and bias.requires_grad and id(bias) not in seen:
                seen.add(id(bias))
                layer = layer._replace(biases=(*layer.biases, bias))
            found[id(weight)] = layer
    layers = list(found.values())
    return [layer for layer in (layers if head else layers[:-1]) if layer.weight.requires_grad]


class Normalisation(NamedTuple):
    """A normalisation layer with a gain.

    Attributes:
        module: the layer.
        gain: γ.
        shift: β, if there is one.
    """

    module: nn.Module
    gain: nn.Parameter
    shift: nn.Parameter | None


def normalisations(model: nn.Module) -> list[Normalisation]:
    """The normalisation layers whose gain is trained, in registration order."""
    found = []
    for module in model.modules():
        if isinstance(module, NORMALISATION) and isinstance(gain := module.weight, nn.Parameter) and gain.requires_grad:
            shift = getattr(module, "bias", None)
            learnt = shift if isinstance(shift, nn.Parameter) and shift.requires_grad else None
            found.append(Normalisation(module, gain, learnt))
    return found


def wide(tensor: Tensor) -> Tensor:
    """The tensor in at least single precision: norms of 16-bit numbers do not fit into 16 bits."""
    return tensor if tensor.dtype.itemsize >= 4 else tensor.to(torch.float32)


def _weights_of(module: nn.Module) -> list[tuple[object, object]]:
    if isinstance(module, (nn.Linear, _ConvNd)):
        return [(module.weight, module.bias)]
    if isinstance(module, nn.MultiheadAttention):
        apart = [module.q_proj_weight, module.k_proj_weight, module.v_proj_weight]
        return [(module.in_proj_weight, module.in_proj_bias), *((weight, None) for weight in apart)]
    return []
