"""λ of every weight, from one number or from patterns."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Literal

from swr.algebra.plan import ScalePlan
from swr.errors import OptionError


def coefficients_of(
    coefficient: float | Mapping[str, float], plan: ScalePlan, idle_patterns: Literal["refuse", "allow"] = "refuse"
) -> dict[str, float]:
    """λ of every weight of the plan.

    Args:
        coefficient: one λ, or λ by pattern.
        plan: of the network.
        idle_patterns: what to do about a pattern that matches no weight; one may after the model has changed.
    """
    if not isinstance(coefficient, Mapping):
        return dict.fromkeys(plan.weights, float(coefficient))
    found = {name: next((p for p in coefficient if fnmatchcase(name, p)), None) for name in plan.weights}
    if unmatched := [name for name, pattern in found.items() if pattern is None]:
        raise OptionError(
            f"no pattern of coefficient matches the weight {unmatched[0]!r} (patterns: {', '.join(map(repr, coefficient))}); "
            'add one, for example "*".'
        )
    if idle_patterns == "refuse" and (
        idle := [p for p in coefficient if not any(fnmatchcase(name, p) for name in plan.weights)]
    ):
        raise OptionError(
            f"the pattern {idle[0]!r} of coefficient matches no weight; the weights are {', '.join(plan.weights)}."
        )
    return {name: float(coefficient[pattern]) for name, pattern in found.items() if pattern is not None}


def check_coefficients(coefficient: float | Mapping[str, float]) -> None:
    """Raise :class:`~swr.OptionError` unless every λ is a number between 0 and 1."""
    if isinstance(coefficient, Mapping) and not coefficient:
        raise OptionError('coefficient is an empty mapping; give a number, or patterns such as {"*": 1e-3}.')
    values = coefficient.items() if isinstance(coefficient, Mapping) else [("", coefficient)]
    for pattern, value in values:
        of = f" for {pattern!r}" if pattern else ""
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
            raise OptionError(f"coefficient λ{of} must be a number between 0 and 1, found {value!r}.")
