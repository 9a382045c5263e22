"""A number for every weight, from one number or from patterns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import Literal

from swr.algebra.blocks import parameter_of
from swr.algebra.plan import ScalePlan
from swr.errors import OptionError


def by_pattern(
    values: float | Mapping[str, float], plan: ScalePlan, what: str, idle_patterns: Literal["refuse", "allow"] = "refuse"
) -> dict[str, float]:
    """The number of every weight of the plan.

    Args:
        values: one number, or numbers by pattern (fnmatch, the first match counts). A pattern that matches a parameter matches
            the blocks that it is used in.
        plan: of the network.
        what: the option, for error messages.
        idle_patterns: what to do about a pattern that matches no weight; one may after the model has changed.
    """
    if not isinstance(values, Mapping):
        return dict.fromkeys(plan.weights, float(values))
    found = {name: next((p for p in values if _matches(name, p)), None) for name in plan.weights}
    if unmatched := [name for name, pattern in found.items() if pattern is None]:
        raise OptionError(
            f"no pattern of {what} matches the weight {unmatched[0]!r} (patterns: {', '.join(map(repr, values))}); "
            'add one, for example "*".'
        )
    if idle_patterns == "refuse" and (idle := [p for p in values if not any(_matches(name, p) for name in plan.weights)]):
        raise OptionError(f"the pattern {idle[0]!r} of {what} matches no weight; the weights are {', '.join(plan.weights)}.")
    return {name: float(values[pattern]) for name, pattern in found.items() if pattern is not None}


def _matches(name: str, pattern: str) -> bool:
    return name == pattern or fnmatchcase(name, pattern) or fnmatchcase(parameter_of(name), pattern)


def check_numbers(values: object, what: str, valid: Callable[[float], bool], must_be: str, example: str) -> None:
    """Raise :class:`~swr.OptionError` unless this is a number that is valid, or a mapping from patterns to such numbers.

    Args:
        values: what was given.
        what: the option and its symbol, for error messages.
        valid: whether a number is.
        must_be: what it must be, in words.
        example: a mapping that could have been given.
    """
    if isinstance(values, Mapping) and not values:
        raise OptionError(f"{what} is an empty mapping; give a number, or patterns such as {example}.")
    pairs = values.items() if isinstance(values, Mapping) else [("", values)]
    for pattern, value in pairs:
        of = f" for {pattern!r}" if pattern else ""
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not valid(value):
            raise OptionError(f"{what}{of} must be {must_be}, found {value!r}.")
