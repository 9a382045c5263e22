"""Options and symbols of several methods at once: whose they are.

An option is written as ``option``, or as ``part.option`` if several parts have one of this name.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from swr.errors import OptionError
from swr.methods.base import Method


def joint_symbols(symbols: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """The symbols of the parts' hyper-parameters, under all names that they go by.

    >>> joint_symbols({"l2": {"coefficient": "λ"}, "redo": {"every": "F"}})
    {'l2.coefficient': 'l2.λ', 'redo.every': 'redo.F', 'coefficient': 'λ', 'every': 'F'}
    """
    found = {f"{part}.{key}": f"{part}.{symbol}" for part, own in symbols.items() for key, symbol in own.items()}
    keys = [key for own in symbols.values() for key in own]
    plain = {key: symbol for own in symbols.values() for key, symbol in own.items() if keys.count(key) == 1}
    return {**found, **plain}


def divided(kinds: Mapping[str, type[Method]], hyper: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The options of every part.

    An option that is written as ``part.option`` goes to that part. Any other goes to the one part that has an option of this
    name.

    Raises:
        OptionError: no part has it, several have it, or it is given twice.
    """
    found: dict[str, dict[str, Any]] = {name: {} for name in kinds}
    title = "+".join(kinds)
    for key, value in hyper.items():
        name, dot, option = key.rpartition(".")
        if not dot:
            owners = _owners(kinds, option)
            if len(owners) != 1:
                raise OptionError(f"{title}: {_whose(kinds, option, owners)}")
            name = owners[0]
        elif name not in kinds:
            raise OptionError(f"{title} has no part {name!r}, named in {key!r}: its parts are {', '.join(kinds)}.")
        if option in found[name]:
            raise OptionError(f"{title}: {option} of {name} is given twice, as {option!r} and as '{name}.{option}'.")
        found[name][option] = value
    return found


def _owners(kinds: Mapping[str, type[Method]], option: str) -> list[str]:
    """The parts that have an option: those that name it, else those that pass unknown ones on."""
    parameters = {name: inspect.signature(kind).parameters for name, kind in kinds.items()}
    naming = [name for name, own in parameters.items() if option in own]
    return naming or [name for name, own in parameters.items() if any(p.kind is p.VAR_KEYWORD for p in own.values())]


def _whose(kinds: Mapping[str, type[Method]], option: str, owners: list[str]) -> str:
    if owners:
        written = " or ".join(f"{name}.{option}" for name in owners)
        return f"{option} is an option of {' and of '.join(owners)}: write {written}."
    known = (f"{name} ({', '.join(options_of(kind))})" for name, kind in kinds.items())
    return f"no part has an option {option!r}; those of the parts are {', '.join(known)}."


def options_of(kind: type[Method]) -> list[str]:
    """The names of a method's options."""
    return [name for name in inspect.signature(kind).parameters if name not in ("model", "example_inputs")]
