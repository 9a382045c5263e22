"""Units and their consumers, read from the traced graph.

Unit i of a layer: what comes in is row i of its weight, entry i of its bias and of a normalisation of each channel after it;
what goes out is every weight that multiplies its activation, after pooling, flattening and whatever moves entries around.

    h_i = φ(W[i] · x + b_i),   y = Σ_i V[:, i] h_i + …        incoming W[i], b_i;   outgoing V[:, i]

A layer's units are *recyclable* when all of that is known: giving unit i other incoming weights while its outgoing weights are
zero cannot change the network's output. A residual sum, attention, a normalisation over channels, a weight that is used twice
or an unknown operator leaves a layer alone, with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from swr.algebra.graph import trace
from swr.probe import as_args
from swr.units.labelling import lookup
from swr.units.labels import Producer, UnitWalk, Use, label
from swr.units.sites import LeftAlone, Site, find_site

NOT_ONE = -1
"""in :attr:`Slice.units`: an entry that belongs to no unit of the layer"""


@dataclass(frozen=True)
class Slice:
    """The entries of one parameter or buffer that belong to a layer's units.

    name: in the model.
    units: the unit of each entry, −1 where there is none, in a shape that broadcasts to the tensor's.
    """

    name: str
    units: Tensor

    def mask(self, chosen: Tensor) -> Tensor:
        """Where the entries of the chosen units are; broadcasts to the tensor.

        chosen: a truth value for each unit.
        """
        return torch.cat([chosen, chosen.new_zeros(1)])[self.units.to(chosen.device)]  # −1 is the last: never chosen


@dataclass(frozen=True)
class UnitLayer:
    """A layer with units, all of whose incoming and outgoing weights are known.

    name: of the module.
    size: how many units.
    weight, axis: the name of its weight, and the axis of it along which the units lie.
    bias: the name of its bias, if it has one.
    gains, shifts, means, variances: entries of normalisation layers after it that belong to one unit each.
    consumers: every weight that multiplies the units' activations.
    site: where the activations can be seen.
    """

    name: str
    size: int
    weight: str
    axis: int
    bias: str | None
    consumers: tuple[Slice, ...]
    site: Site
    gains: tuple[Slice, ...] = ()
    shifts: tuple[Slice, ...] = ()
    means: tuple[Slice, ...] = ()
    variances: tuple[Slice, ...] = ()


@dataclass(frozen=True)
class Units:
    """The recyclable layers of a network, and why the others are left alone.

    >>> net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 10))
    >>> print(find_units(net, torch.randn(2, 1, 8, 8)).describe())
    0  4 units  seen at 1  leave through 3.weight (36 a unit)
    3  left alone: it is an output of the model
    """

    layers: tuple[UnitLayer, ...]
    left_alone: Mapping[str, str] = field(default_factory=dict)
    """layer -> reason"""

    def describe(self) -> str:
        """A text table."""
        rows = []
        for layer in self.layers:
            through = ", ".join(f"{each.name} ({_share(each)} a unit)" for each in layer.consumers)
            then = "".join(f", then {name}" for name in layer.site.operators)
            rows.append((layer.name, f"{layer.size} units  seen at {layer.site.module}{then}  leave through {through}"))
        rows += [(name or "the model", f"left alone: {reason}") for name, reason in self.left_alone.items()]
        width = max((len(name) for name, _ in rows), default=0)
        return "\n".join(f"{name:<{width}}  {text}" for name, text in rows)


def find_units(model: nn.Module, example_inputs: Any = (), kwargs: Mapping[str, Any] | None = None) -> Units:
    """Find the layers of a model whose units can be recycled.

    The model is traced once, in the mode it is in (train or eval), without being run or changed.

    model: a plain model, before it is wrapped (DDP, FSDP, torch.compile).
    example_inputs: a tensor, or a tuple of positional inputs.
    kwargs: keyword inputs.
    """
    frozen = frozenset(name for name, p in model.named_parameters() if not p.requires_grad)
    walk = label(trace(model, as_args(example_inputs), kwargs), frozen, lookup)
    layers: list[UnitLayer] = []
    left_alone = dict(walk.refused)
    for index, producer in enumerate(walk.producers):
        found = LeftAlone(walk.lost[index]) if index in walk.lost else _layer(walk, producer, model)
        if isinstance(found, LeftAlone):
            left_alone[producer.name] = found.reason
        else:
            layers.append(found)
    return Units(tuple(layers), left_alone)


def _layer(walk: UnitWalk, producer: Producer, model: nn.Module) -> UnitLayer | LeftAlone:
    consumers = _slices(walk, producer, "consumer")
    if not consumers:
        return LeftAlone("nothing reads it")
    site = find_site(walk, producer, model)
    if isinstance(site, LeftAlone):
        return site
    return UnitLayer(
        producer.name,
        producer.size,
        producer.weight,
        producer.axis,
        producer.bias,
        consumers,
        site,
        gains=_slices(walk, producer, "gain"),
        shifts=_slices(walk, producer, "shift"),
        means=_slices(walk, producer, "mean"),
        variances=_slices(walk, producer, "variance"),
    )


def _slices(walk: UnitWalk, producer: Producer, role: str) -> tuple[Slice, ...]:
    uses = [use for use in walk.uses if use.role == role]
    slices = [Slice(use.name, _own(use, producer)) for use in uses]
    return tuple(each for each in slices if bool((each.units != NOT_ONE).any()))


def _own(use: Use, producer: Producer) -> Tensor:
    units = use.labels - producer.first
    return torch.where((units >= 0) & (units < producer.size), units, NOT_ONE)


def _share(consumer: Slice) -> int:
    """Entries of a consumer that belong to one unit, along the axes that tell units apart."""
    units = consumer.units[consumer.units != NOT_ONE]
    return len(units) // len(torch.unique(units))
