"""Blocks of a parameter: parts along one axis that a network uses apart, each a weight or a follower of its own.

A block is known by its name, in the notation of indexing: ``attn.in_proj_weight[0:64]``, or ``c_attn.weight[:, 64:128]`` along
the second axis. :mod:`swr.algebra.fused` finds them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from swr.sharding import narrowed

_NAME = re.compile(r"(?P<parameter>.+)\[(?P<colons>(?::, )*)(?P<start>\d+):(?P<stop>\d+)\]")


@dataclass(frozen=True, order=True)
class Block:
    """Entries ``start`` to ``stop`` of a parameter along ``axis``.

    >>> Block("attn.weight", 1, 64, 128).name
    'attn.weight[:, 64:128]'
    >>> Block.named("attn.weight[:, 64:128]")
    Block(parameter='attn.weight', axis=1, start=64, stop=128)
    """

    parameter: str
    axis: int
    start: int
    stop: int

    @classmethod
    def named(cls, name: str) -> Block | None:
        """The block of this name; None if it is the name of a whole tensor."""
        found = _NAME.fullmatch(name)
        if found is None:
            return None
        return cls(found["parameter"], found["colons"].count(":"), int(found["start"]), int(found["stop"]))

    @property
    def name(self) -> str:
        """As in a plan."""
        return f"{self.parameter}[{':, ' * self.axis}{self.start}:{self.stop}]"

    def of(self, tensor: Tensor) -> Tensor:
        """The block as a view of its parameter, so that in-place changes change the parameter."""
        return narrowed(tensor, self.axis, self.start, self.stop)


def parameter_of(name: str) -> str:
    """The parameter that a name of a plan belongs to: itself, or the one it is a block of.

    >>> parameter_of("attn.weight[0:64]"), parameter_of("head.weight")
    ('attn.weight', 'head.weight')
    """
    block = Block.named(name)
    return name if block is None else block.parameter


def tensor_of(name: str, tensors: Mapping[str, Tensor]) -> Tensor:
    """The tensor of this name, or the view of its parameter.

    Args:
        name: of a parameter, a buffer or a block.
        tensors: parameters and buffers by name.
    """
    block = None if name in tensors else Block.named(name)
    return tensors[name] if block is None else block.of(tensors[block.parameter])


class Shapes(dict[str, tuple[int, ...]]):
    """The shapes of parameters by name, which also knows those of their blocks.

    >>> shapes = Shapes({"weight": (6, 4)})
    >>> shapes["weight[2:6]"], list(shapes)
    ((4, 4), ['weight'])
    """

    def __missing__(self, name: str) -> tuple[int, ...]:
        block = Block.named(name)
        if block is None or block.parameter not in self:
            raise KeyError(name)
        shape = list(self[block.parameter])
        shape[block.axis] = block.stop - block.start
        return tuple(shape)
