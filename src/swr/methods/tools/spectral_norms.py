"""Spectral norms by power iteration, with vectors that are kept from call to call.

    v <- Wᵀ W v / ‖Wᵀ W v‖,   σ(W) ≈ ‖W v‖ ≤ σ(W)

Weights move little between two steps of an optimizer, so one iteration per step follows the largest singular value. Vectors
redrawn at each call, as in some implementations, would underestimate it every time.

W is the weight as a matrix, or, of a convolution, the map of a whole input with its stride, padding and input size. The norm of
the latter is that of the layer itself; the norm of the kernel flattened to a matrix is another number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Generator, Size, Tensor, nn
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd

from swr.errors import InputsError
from swr.methods.base import restore
from swr.methods.tools.layers import Affine, wide
from swr.power_iteration import gram
from swr.probe import evaluated

WARM_UP = 15
"""iterations when the vectors are drawn, as many as torch's own spectral_norm does"""


class Map(NamedTuple):
    """A linear map W at this moment.

    Attributes:
        apply: x -> W x; can be differentiated.
        gram: x -> Wᵀ W x.
        shape: of x.
        weight: a tensor with the device and precision of x.
    """

    apply: Callable[[Tensor], Tensor]
    gram: Callable[[Tensor], Tensor]
    shape: Sequence[int]
    weight: Tensor


def matrix_map(layer: Affine) -> Map:
    """The weight as a matrix, [outputs, inputs * kernel]."""
    matrix = layer.matrix()
    return Map(matrix.mv, lambda x: matrix.t().mv(matrix.mv(x)), matrix.shape[1:], matrix)


class PowerIteration:
    """The leading right singular vectors v of several maps.

    >>> weight = torch.nn.Parameter(torch.tensor([[3.0, 0.0], [0.0, 1.0]]))
    >>> maps = {"weight": matrix_map(Affine("weight", torch.nn.Module(), weight))}
    >>> round(PowerIteration(maps, torch.Generator().manual_seed(0)).norms(maps).item(), 4)
    3.0

    Args:
        maps: by name.
        generator: on the CPU; the vectors are drawn from it once.
    """

    def __init__(self, maps: Mapping[str, Map], generator: Generator) -> None:
        self.vectors = {name: torch.randn(tuple(one.shape), generator=generator) for name, one in maps.items()}
        for _ in range(WARM_UP if maps else 0):
            self.refine(maps)

    @torch.no_grad()
    def refine(self, maps: Mapping[str, Map]) -> Tensor:
        """One iteration; returns σ of every map, estimated from below as ‖Wᵀ W v‖^½.

        Where W v is zero or not finite, v stays as it is: a layer that is zero for a while is found again.
        """
        squares = []
        for name, one in maps.items():
            v = self.vectors[name].to(one.weight)
            image = one.gram(v)
            square = torch.linalg.vector_norm(image)
            self.vectors[name] = torch.where((square > 0) & square.isfinite(), image / square, v)
            squares.append(square)
        return torch.stack(squares).sqrt_()

    def norms(self, maps: Mapping[str, Map]) -> Tensor:
        """σ of every map, ‖W v‖, with gradient u vᵀ; v is constant."""
        images = [one.apply(self.vectors[name].to(one.weight)) for name, one in maps.items()]
        return torch.stack([torch.linalg.vector_norm(image) for image in images])

    def load(self, vectors: Mapping[str, Tensor]) -> None:
        """Continue from these vectors."""
        self.vectors = {name: vector.clone() for name, vector in self.vectors.items()}
        restore(self.vectors, vectors)


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

    return Map(apply, lambda x: gram(apply, x)[1], (1, *sizes[module]), weight)


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
        evaluated(model, example_inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return sizes
