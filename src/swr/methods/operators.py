"""What a layer does to a whole input, as a linear map: a convolution with its stride, padding and input size.

Its spectral norm is that of the layer itself. The norm of the kernel flattened to a matrix is another number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from torch import Size, Tensor, nn
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd

from swr.errors import InputsError
from swr.methods.affine import Affine, wide
from swr.methods.dry_run import dry_run
from swr.methods.power import Map, matrix_map


def operator_map(layer: Affine, sizes: Mapping[nn.Module, Size]) -> Map:
    """The layer without its bias; of a convolution that has no input size, the flattened kernel.

    Args:
        sizes: of one input of every convolution; see :func:`input_sizes`.
    """
    module = layer.module
    if not isinstance(module, _ConvNd) or module not in sizes:
        return matrix_map(layer)
    weight = wide(layer.weight)

    def apply(x: Tensor) -> Tensor:
        if not isinstance(module, _ConvTransposeNd):
            y: Tensor = module._conv_forward(x, weight, None)
            return y
        padding, extra = cast(tuple[int, ...], module.padding), module.output_padding
        return torch.convolution(x, weight, None, module.stride, padding, module.dilation, True, extra, module.groups)

    def gram(x: Tensor) -> Tensor:
        x = x.detach().requires_grad_()
        with torch.enable_grad():
            y = apply(x)
        return torch.autograd.grad(y, x, y.detach())[0]

    return Map(apply, gram, (1, *sizes[module]), weight)


def input_sizes(model: nn.Module, example_inputs: Any, layers: Sequence[Affine]) -> dict[nn.Module, Size]:
    """The size of one input, channels first, of every convolution among the layers; the largest if it is used twice.

    Runs the model once, and leaves no trace in it.

    Args:
        example_inputs: a batch of inputs; a tuple for several arguments.
    """
    convolutions = [layer.module for layer in layers if isinstance(layer.module, _ConvNd)]
    if not convolutions:
        return {}
    if example_inputs is None:
        raise InputsError(
            "the spectral norm of a convolution depends on the size of its input: pass example_inputs, one batch as the "
            "model's forward takes it."
        )
    sizes: dict[nn.Module, Size] = {}

    def see(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        size = inputs[0].shape[1:]
        if module not in sizes or size.numel() > sizes[module].numel():
            sizes[module] = size

    hooks = [module.register_forward_pre_hook(see) for module in convolutions]
    try:
        dry_run(model, example_inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return sizes
