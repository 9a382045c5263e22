"""Dormant units: those that hardly ever fire compared with the rest of their layer.

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
    """How many units of each layer are dormant."""

    dormant: Mapping[str, int]
    units: Mapping[str, int]

    @property
    def fractions(self) -> dict[str, float]:
        """Of each layer's units."""
        return {name: self.dormant[name] / count for name, count in self.units.items()}

    @property
    def total(self) -> float:
        """The fraction of all units together."""
        return sum(self.dormant.values()) / sum(self.units.values())


def unit_scores(model: nn.Module, inputs: Any) -> dict[str, Tensor]:
    """The score of every hidden unit, relative to the mean of its layer.

        s_i = E|h_i| / mean_k E|h_k|,   E over the examples and, for convolutions, their positions

    h are post-activation outputs in evaluation mode, of activation modules and of functions such as ``F.relu`` alike (see
    :mod:`swr.diagnostics.activations` for the list and the names). Where a whole layer is silent, s_i = 0.

    >>> {name: s.shape for name, s in unit_scores(model, x).items()}
    {'1': torch.Size([4])}

    inputs: a tensor or a tuple of positional inputs; some hundreds of examples make a steady estimate.
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

    inputs: as in :func:`unit_scores`.
    threshold: τ; 0 counts the units that never fire.
    """
    if not threshold >= 0:
        raise OptionError(f"the threshold τ must not be negative, found {threshold!r}.")
    scores = unit_scores(model, inputs)
    return Dormant(
        {name: int((s <= threshold).sum()) for name, s in scores.items()},
        {name: s.numel() for name, s in scores.items()},
    )
