"""Sharded parameters (DTensor, as FSDP2 makes them): the part on this rank, and sums over the ranks.

Nothing here is imported or asked for until a model really is sharded.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import DTensor


def as_sharded(tensor: Tensor) -> DTensor | None:
    """The tensor, if it is distributed."""
    module = sys.modules.get("torch.distributed.tensor")
    return tensor if module is not None and isinstance(tensor, module.DTensor) else None


def local(tensor: Tensor) -> Tensor:
    """What this rank holds of a tensor: all of it, unless it is sharded. In-place changes reach the tensor."""
    sharded = as_sharded(tensor)
    return tensor if sharded is None else sharded.to_local().detach()


class Sum:
    """Adds up one number per tensor over the ranks that hold different parts of it.

    One all-reduce serves all tensors that are sharded over the same dimensions of the same mesh, however many there
    are. What every rank holds in full is not added.

    tensors: those that the numbers belong to.
    """

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        members: dict[tuple[DeviceMesh, tuple[bool, ...]], list[int]] = {}
        for i, tensor in enumerate(tensors):
            sharded = as_sharded(tensor)
            if sharded is not None and any(placement.is_shard() for placement in sharded.placements):
                dimensions = tuple(placement.is_shard() for placement in sharded.placements)
                members.setdefault((sharded.device_mesh, dimensions), []).append(i)
        self._groups: list[tuple[DeviceMesh, tuple[bool, ...], Tensor]] = []
        for (mesh, dimensions), indices in members.items():
            mask = torch.zeros(len(tensors), dtype=torch.bool)
            mask[indices] = True
            self._groups.append((mesh, dimensions, mask.to(local(tensors[0]).device)))

    def __bool__(self) -> bool:
        return bool(self._groups)

    def __call__(self, numbers: Tensor) -> Tensor:
        """The sums; the last dimension of ``numbers`` is one entry per tensor."""
        from torch.distributed.tensor import DTensor, Partial, Placement, Replicate

        for mesh, dimensions, mask in self._groups:
            part = torch.where(mask, numbers, 0.0).to(mesh.device_type)
            placements: list[Placement] = [Partial() if sharded else Replicate() for sharded in dimensions]
            total = DTensor.from_local(part, mesh, placements, run_check=False).full_tensor()
            numbers = torch.where(mask, total.to(numbers.device), numbers)
        return numbers
