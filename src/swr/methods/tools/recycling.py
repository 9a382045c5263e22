"""Give chosen units a new life: fresh incoming weights, no outgoing ones, and an optimizer that has forgotten the old ones.

    W[i] <- fresh,   b_i <- 0,   γ_i, β_i <- 1, 0,   running mean and variance <- 0, 1,   V[:, i] <- 0

As long as nothing but V[:, i] reads unit i, the network computes what it would without the unit.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Generator, Tensor, nn
from torch.nn.modules.conv import _ConvNd
from torch.optim import Optimizer

from swr.methods.tools.fresh import Initialiser, fresh_values, own_initialiser
from swr.methods.tools.optimizer_state import Policy, forget
from swr.units import Slice, UnitLayer

_BY_FAN_IN = (nn.Linear.reset_parameters, _ConvNd.reset_parameters)
"""initialisers that draw every entry from U(−1/√fan_in, 1/√fan_in)"""


@torch.no_grad()
def recycle(
    model: nn.Module,
    chosen: Iterable[tuple[UnitLayer, Tensor]],
    generator: Generator,
    *,
    initialise: Initialiser = own_initialiser,
    optimizer: Optimizer | None = None,
    optimizer_state: Policy = "clear_moments",
) -> None:
    """Recycle units, in place.

    All incoming weights are drawn before any outgoing ones are cleared, so that of two chosen units that follow each other
    both end with no outgoing weights. Nothing is read back from the device.

    Args:
        chosen: layers, each with the indices of its units.
        generator: on the CPU.
        initialise: re-initialises one layer; by default its own ``reset_parameters()``.
        optimizer: forgets the changed entries by the policy ``optimizer_state``.
    """
    chosen = list(chosen)
    masks: dict[str, Tensor] = {}

    def write(part: Slice, units: Tensor, value: float) -> None:
        mask = part.mask(units)
        _tensor(model, part.name).masked_fill_(mask, value)
        masks[part.name] = masks[part.name] | mask if part.name in masks else mask

    members = []
    for layer, index in chosen:
        weight = model.get_parameter(layer.weight)
        weight.index_copy_(
            layer.axis, index, _fresh(model.get_submodule(layer.name), weight, layer, index, generator, initialise)
        )
        units = torch.zeros(layer.size, dtype=torch.bool, device=index.device).index_fill_(0, index, True)
        members.append(units)
        masks[layer.weight] = units.reshape([-1 if axis == layer.axis else 1 for axis in range(weight.ndim)])
        if layer.bias is not None:
            model.get_parameter(layer.bias).index_fill_(0, index, 0.0)
            masks[layer.bias] = units
        for parts, value in ((layer.gains, 1.0), (layer.shifts, 0.0), (layer.means, 0.0), (layer.variances, 1.0)):
            for part in parts:
                write(part, units, value)
    for (layer, _), units in zip(chosen, members, strict=True):
        for part in layer.consumers:
            write(part, units, 0.0)
    parameters = dict(model.named_parameters())
    for name, mask in masks.items():
        if name in parameters:
            forget(optimizer, parameters[name], mask, optimizer_state)


def _fresh(
    layer: nn.Module, weight: nn.Parameter, units: UnitLayer, index: Tensor, generator: Generator, initialise: Initialiser
) -> Tensor:
    """New incoming weights of the units, drawn with the fan-in of the whole layer."""
    if initialise is own_initialiser and getattr(type(layer), "reset_parameters", None) in _BY_FAN_IN:
        shape = [len(index) if axis == units.axis else size for axis, size in enumerate(weight.shape)]
        bound = weight[0].numel() ** -0.5
        return torch.empty(shape).uniform_(-bound, bound, generator=generator).to(weight)
    return fresh_values([layer], generator, initialise)[weight].index_select(units.axis, index)


def _tensor(model: nn.Module, name: str) -> Tensor:
    owner, _, last = name.rpartition(".")
    tensor: Tensor = getattr(model.get_submodule(owner), last)
    return tensor


class OutgoingMagnitude:
    """mean |W_out| of every unit of a layer, over all weights that leave it, ready to be computed at every step.

    >>> from swr.units import find_units
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
