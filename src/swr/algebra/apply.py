"""Multiply named parameters and buffers of a model by their factors, once."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from swr.algebra.blocks import tensor_of
from swr.sharding import local


@torch.no_grad()
def multiply(model: nn.Module, names: Sequence[str], factors: Tensor) -> None:
    """Multiply each named tensor or block in place by its factor; of sharded ones, each rank multiplies its own part.

    >>> net = nn.Linear(2, 1, bias=False)
    >>> net.weight.data = torch.ones(1, 2)
    >>> multiply(net, ["weight"], torch.tensor([3.0]))
    >>> net.weight.tolist()
    [[3.0, 3.0]]

    Args:
        model: the model that has the tensors.
        names: of parameters, their blocks and buffers.
        factors: one per name.
    """
    tensors: dict[str, Tensor] = {**dict(model.named_buffers()), **dict(model.named_parameters())}
    for name, factor in zip(names, factors.unbind(), strict=True):
        tensor = local(tensor_of(name, tensors))
        tensor.mul_(factor.to(device=tensor.device, dtype=torch.promote_types(tensor.dtype, torch.float32)))
