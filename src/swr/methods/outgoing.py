"""How large a unit's outgoing weights are."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from swr.algebra.units import UnitLayer


class OutgoingMagnitude:
    """mean |W_out| of every unit of a layer, over all weights that leave it, ready to be computed at every step.

    >>> from swr.algebra.units import find_units
    >>> layer = find_units(model, x).layers[0]
    >>> OutgoingMagnitude(model, layer)().shape
    torch.Size([4])
    """

    def __init__(self, model: nn.Module, layer: UnitLayer) -> None:
        self._size = layer.size
        self._parts = []
        counts = torch.zeros(layer.size + 1)
        for consumer in layer.consumers:
            weight = model.get_parameter(consumer.name)
            units = consumer.units.to(weight.device)
            over = [axis for axis in range(weight.ndim) if units.shape[axis] == 1 and weight.shape[axis] > 1]
            line = torch.where(units < 0, layer.size, units).flatten()  # one past the last unit: entries of no unit
            counts.index_add_(0, line.cpu(), torch.full((len(line),), float(weight.numel() // len(line))))
            plain = torch.equal(line, torch.arange(layer.size, device=line.device))
            self._parts.append((weight, over, None if plain else line))
        self._inverse = (1 / counts[:-1].clamp(min=1)).to(weight.device)

    def __call__(self) -> Tensor:
        """mean_k |W_out[k, i]|."""
        total: Tensor | None = None
        for weight, over, line in self._parts:
            sums = weight.detach().abs().sum(over, dtype=torch.float32) if over else weight.detach().abs().float()
            if line is not None:
                sums = sums.new_zeros(self._size + 1).index_add_(0, line, sums.flatten())[:-1]
            total = sums.flatten() if total is None else total + sums.flatten()
        assert total is not None  # a recyclable layer has consumers
        return total * self._inverse.to(total.device)
