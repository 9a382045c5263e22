"""Dormant units: units whose activations are small compared with the rest of their layer.

References:
    G. Sokar, R. Agarwal, P. S. Castro, U. Evci: The Dormant Neuron Phenomenon in Deep Reinforcement Learning, ICML 2023.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from swr.diagnostics.activations import Watched
from swr.errors import ModelError, OptionError


@dataclass(frozen=True)
class Dormant:
    """How many units of each layer are dormant.

    Attributes:
        dormant: the number of dormant units by layer.
        units: the number of all units by layer.
    """

    dormant: Mapping[str, int]
    units: Mapping[str, int]

    @property
    def fractions(self) -> dict[str, float]:
        """The fraction of dormant units in each layer."""
        return {name: self.dormant[name] / count for name, count in self.units.items()}

    @property
    def total(self) -> float:
        """The fraction of dormant units among all units of the network."""
        return sum(self.dormant.values()) / sum(self.units.values())


def unit_scores(model: nn.Module, inputs: Any) -> dict[str, Tensor]:
    """The score of every hidden unit, relative to the mean of its layer.

        s_i = E|h_i| / mean_k E|h_k|,   E over the examples and, for convolutions, their positions

    h are the outputs of activations in evaluation mode, both of modules and of functions such as ``F.relu`` (see
    :mod:`swr.diagnostics.activations` for the list and the names). Where all units of a layer are zero, s_i = 0.

    >>> {name: s.shape for name, s in unit_scores(model, x).items()}
    {'1': torch.Size([4])}

    Args:
        model: any module; it is left as it was.
        inputs: a tensor or a tuple of positional inputs; a few hundred examples give a stable estimate.

    Raises:
        ModelError: the model ran without an activation function.
    """
    magnitudes = Watched(model, inputs).magnitudes
    if not magnitudes:
        raise ModelError(f"{type(model).__name__} ran without an activation function, so it has no hidden units to count.")
    return {name: torch.nan_to_num(a / a.mean(), nan=0.0) if not a.any() else a / a.mean() for name, a in magnitudes.items()}


def dormant_units(model: nn.Module, inputs: Any, threshold: float = 0.025) -> Dormant:
    """Count the units with s_i ≤ τ, per layer and in total.

    >>> silent = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    >>> silent[0].weight.data = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]])
    >>> silent[0].bias.data.zero_()
    tensor([0., 0., 0.])
    >>> dormant_units(silent, torch.ones(4, 2)).dormant
    {'1': 1}

    Args:
        model: any module; it is left as it was.
        inputs: as in :func:`unit_scores`.
        threshold: τ; 0 counts the units that are zero for every example.
    """
    if not threshold >= 0:
        raise OptionError(f"the threshold τ must not be negative, found {threshold!r}.")
    scores = unit_scores(model, inputs)
    return Dormant(
        {name: int((s <= threshold).sum()) for name, s in scores.items()},
        {name: s.numel() for name, s in scores.items()},
    )
