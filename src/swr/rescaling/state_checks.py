"""Whether what is loaded can be the state of a rescaler: anchors and counters are numbers in their ranges."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from swr.errors import StateError


def check_anchors(anchors: object) -> dict[str, float]:
    """The anchors n^init by name: finite numbers, 0 or larger.

    >>> check_anchors({"0.weight": 3})
    {'0.weight': 3.0}

    Args:
        anchors: what a state holds as its anchors; anything else raises :class:`~swr.StateError`.
    """
    if not isinstance(anchors, Mapping):
        raise StateError(f"the anchors of the state must be numbers by name, found {type(anchors).__name__}.")
    return {str(name): _number(value, f"the anchor of {name}") for name, value in anchors.items()}


def check_optimizer_state(state: object) -> None:
    """Raise :class:`~swr.StateError` unless the numbers of one optimizer's state are in their ranges.

    Args:
        state: counters, what rounding has not applied yet, and the learning rates seen.
    """
    wanted = {"steps", "waiting", "missed", "pending", "lr", "largest_lr"}
    if not isinstance(state, Mapping) or not wanted <= set(state):
        missing = f"without {min(wanted - set(state))!r}" if isinstance(state, Mapping) else type(state).__name__
        raise StateError(f"this is not the state of an optimizer's weights: found one {missing}.")
    for name in ("steps", "waiting", "missed"):
        _number(state[name], f"{name} in the state")
    if not isinstance(state["pending"], Mapping):
        raise StateError(f"pending in the state must be numbers by name, found {type(state['pending']).__name__}.")
    for name, value in state["pending"].items():
        _number(value, f"what is pending for {name}", least=-math.inf)
    for name in ("lr", "largest_lr"):
        for value in state[name]:
            _number(value, f"{name} in the state")


def _number(value: Any, what: str, least: float = 0.0) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not (math.isfinite(value) and value >= least):
        wanted = "a finite number" if least == -math.inf else f"a finite number, at least {least:g}"
        raise StateError(f"{what} must be {wanted}, found {value!r}: the state is damaged.")
    return float(value)
