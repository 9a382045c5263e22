"""Duplicate units: units that compute the same as another unit of their layer.

References:
    A. Joudaki et al.: Barriers for Learning in an Evolving World: Mathematical Understanding of Loss of Plasticity, 2025
    ("cloned" units).
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from swr.checks import fraction
from swr.diagnostics.activations import Watched
from swr.errors import ModelError


def duplicates(units: Tensor, correlation: float = 0.95) -> int:
    """The number of units that could be left out because an earlier one has the same activations up to scale and shift.

    Unit i is a duplicate if its correlation with a unit k < i is at least the threshold. A unit that is constant, for example
    silent, correlates with nothing and does not count.

    >>> a, b = torch.tensor([1.0, 2.0, 4.0]), torch.tensor([1.0, 0.0, 1.0])
    >>> duplicates(torch.stack([a, b, 2 * a, 3 * a], dim=1))
    2

    Args:
        units: one column per unit, one row per example.
        correlation: the threshold, from 0 to 1.
    """
    threshold = fraction(correlation, "the correlation")
    centred = units.detach().double() - units.detach().double().mean(0)
    sizes = centred.norm(dim=0)
    moving = sizes > 1e-6 * sizes.max().clamp_min(1e-30)
    unit = centred[:, moving] / sizes[moving]
    return int(((unit.T @ unit).tril(-1) >= threshold).any(1).sum())


def duplicate_units(model: nn.Module, inputs: Any, correlation: float = 0.95) -> dict[str, float]:
    """The fraction of duplicate units in each layer, by the name of the activation (see :mod:`swr.diagnostics.activations`).

    >>> twins = nn.Sequential(nn.Linear(2, 2, bias=False), nn.ReLU(), nn.Linear(2, 1))
    >>> twins[0].weight.data = torch.tensor([[1.0, 0.0], [2.0, 0.0]])
    >>> duplicate_units(twins, torch.randn(8, 2).abs())
    {'1': 0.5}

    Args:
        model: any module; it is left as it was.
        inputs: a tensor or a tuple of positional inputs; a few hundred examples give a stable estimate.
        correlation: as in :func:`duplicates`.

    Raises:
        ModelError: the model ran without an activation function.
    """
    found = Watched(model, inputs, keep=True).units
    if not found:
        raise ModelError(f"{type(model).__name__} ran without an activation function, so it has no hidden units to compare.")
    return {name: duplicates(units, correlation) / units.shape[1] for name, units in found.items()}
