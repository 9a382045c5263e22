"""Spectral norms by power iteration, with vectors that are kept from call to call.

    v <- Wᵀ W v / ‖Wᵀ W v‖,   σ(W) ≈ ‖W v‖ ≤ σ(W)

Weights move little between two steps of an optimizer, so one iteration per step follows the largest singular value. Vectors
redrawn at each call, as in some implementations, would underestimate it every time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from swr.methods.affine import Affine
from swr.methods.base import restore

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
