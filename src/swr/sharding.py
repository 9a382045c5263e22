"""Sharded parameters (DTensor, as in FSDP2): the part on this rank, and sums over the ranks.

``torch.distributed.tensor`` is not imported before a model is sharded.
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
    """The tensor, if it is a DTensor; else None."""
    module = sys.modules.get("torch.distributed.tensor")
    return tensor if module is not None and isinstance(tensor, module.DTensor) else None


def local(tensor: Tensor) -> Tensor:
    """The part of a tensor on this rank, which is all of it unless it is sharded. In-place changes change the tensor."""
    sharded = as_sharded(tensor)
    return tensor if sharded is None else sharded.to_local().detach()


def narrowed(tensor: Tensor, axis: int, start: int, stop: int) -> Tensor:
    """Entries ``start`` to ``stop`` along an axis, as a view; of a sharded tensor, what this rank holds of them.

    The view of a sharded tensor is a DTensor of the same mesh, whose part on this rank may be empty. It serves for norms and
    in-place products on each rank, not for redistribution.

    >>> narrowed(torch.arange(6), 0, 2, 4)
    tensor([2, 3])
    """
    sharded = as_sharded(tensor)
    if sharded is None:
        return tensor.detach().narrow(axis, start, stop - start)
    from torch.distributed.tensor import DTensor

    here, shape, held = local(tensor), list(tensor.shape), _held(sharded, axis)
    first, last = torch.searchsorted(held, torch.tensor([start, stop], device="cpu")).tolist()
    shape[axis] = stop - start
    whole = torch.empty(shape, device="meta")
    part = here.narrow(axis, first, last - first)
    return DTensor.from_local(
        part, sharded.device_mesh, sharded.placements, run_check=False, shape=whole.shape, stride=whole.stride()
    )


def _held(tensor: DTensor, axis: int) -> Tensor:
    """Which entries along an axis this rank holds, in order.

    FSDP2 on top of tensor parallelism shards an axis twice, along the outer dimension of the mesh in strides
    (``_StridedShard``). What a rank holds is then not always one interval, but its order is the tensor's.
    """
    entries = torch.arange(tensor.shape[axis], device="cpu")
    coordinate = tensor.device_mesh.get_coordinate()
    if coordinate is None:
        return entries[:0]
    for dimension, placement in enumerate(tensor.placements):
        if getattr(placement, "dim", None) == axis:
            pieces = entries.chunk(getattr(placement, "split_factor", 1))
            own = [piece.chunk(tensor.device_mesh.size(dimension)) for piece in pieces]
            at = coordinate[dimension]
            entries = torch.cat([parts[at] for parts in own if at < len(parts)] or [entries[:0]])
    return entries


class Sum:
    """Sums one number per tensor over the ranks that hold different parts of it.

    All tensors that are sharded over the same dimensions of the same mesh share one all-reduce. Numbers of tensors that every
    rank holds in full are not summed. It is false if no tensor is sharded.

    Args:
        tensors: the tensors that the numbers belong to.
    """

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        members: dict[tuple[DeviceMesh, tuple[bool, ...]], list[int]] = {}
        for i, tensor in enumerate(tensors):
            sharded = as_sharded(tensor)
            if sharded is None:
                continue
            # a _StridedShard, the outer of two shards of one axis, says False to is_shard()
            dimensions = tuple(not placement.is_replicate() for placement in sharded.placements)
            if any(dimensions):
                members.setdefault((sharded.device_mesh, dimensions), []).append(i)
        self._groups: list[tuple[DeviceMesh, tuple[bool, ...], Tensor]] = []
        for (mesh, dimensions), indices in members.items():
            mask = torch.zeros(len(tensors), dtype=torch.bool)
            mask[indices] = True
            self._groups.append((mesh, dimensions, mask.to(local(tensors[0]).device)))

    def __bool__(self) -> bool:
        return bool(self._groups)

    def __call__(self, numbers: Tensor) -> Tensor:
        """The sums over the ranks.

        Args:
            numbers: any shape whose last dimension has one entry per tensor.
        """
        from torch.distributed.tensor import DTensor, Partial, Placement, Replicate

        for mesh, dimensions, mask in self._groups:
            part = torch.where(mask, numbers, 0.0).to(mesh.device_type)
            placements: list[Placement] = [Partial() if sharded else Replicate() for sharded in dimensions]
            total = DTensor.from_local(part, mesh, placements, run_check=False).full_tensor()
            numbers = torch.where(mask, total.to(numbers.device), numbers)
        return numbers
