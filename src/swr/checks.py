"""Check the values of options: what was expected, and what was found."""

from __future__ import annotations

from math import inf

from swr.errors import OptionError


def at_least(value: object, name: str, least: float) -> float:
    """A finite number, ``least`` or larger."""
    if not _is_number(value) or not least <= value < inf:  # type: ignore[operator]
        raise OptionError(f"{name} must be a number, at least {least}, found {value!r}.")
    return float(value)  # type: ignore[arg-type]


def at_least_zero(value: object, name: str) -> float:
    """A finite number, 0 or larger."""
    return at_least(value, name, 0)


def finite(value: object, name: str) -> float:
    """Any finite number."""
    if not _is_number(value) or not -inf < value < inf:  # type: ignore[operator]
        raise OptionError(f"{name} must be a number, found {value!r}.")
    return float(value)  # type: ignore[arg-type]


def positive(value: object, name: str, *, infinite: bool = True) -> float:
    """A number above 0.

    Args:
        value: what was given.
        name: of the option, for the error.
        infinite: whether infinity counts.
    """
    if not _is_number(value) or not value > 0 or (value == inf and not infinite):  # type: ignore[operator]
        raise OptionError(f"{name} must be a number above 0, found {value!r}.")
    return float(value)  # type: ignore[arg-type]


def fraction(value: object, name: str) -> float:
    """A number from 0 to 1."""
    if not _is_number(value) or not 0 <= value <= 1:  # type: ignore[operator]
        raise OptionError(f"{name} must be a number between 0 and 1, found {value!r}.")
    return float(value)  # type: ignore[arg-type]


def whole(value: object, name: str, least: int = 1) -> int:
    """A whole number, ``least`` or larger."""
    if not _is_number(value) or not least <= value < inf or value != int(value):  # type: ignore
        raise OptionError(f"{name} must be a whole number, at least {least}, found {value!r}.")
    return int(value)  # type: ignore[call-overload, no-any-return]


def interval(value: object, name: str) -> float:
    """A number of steps; infinity means never."""
    if not _is_number(value) or not value >= 1 or (value != inf and value != int(value)):  # type: ignore
        raise OptionError(f"{name} must be a number of steps, 1 or more (float('inf') for never), found {value!r}.")
    return float(value)  # type: ignore[arg-type]


def choice(value: object, name: str, known: tuple[object, ...]) -> None:
    """One of the known values."""
    if not any(value == one and type(value) is type(one) for one in known):
        raise OptionError(f"{name} must be {' or '.join(map(repr, known))}, found {value!r}.")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
