"""Values from the texts of the command line."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from swr.bench.running import cores
from swr.bench.words import require
from swr.errors import OptionError


def names(given: Sequence[str]) -> list[str] | None:
    """Names separated by spaces or commas; None without any.

    >>> names(["cold,vanilla", "swr"])
    ['cold', 'vanilla', 'swr']
    """
    return [name for text in given for name in text.split(",") if name] or None


def hyper(given: Sequence[str]) -> dict[str, float] | None:
    """Numbers by name; None without any.

    >>> hyper(["coefficient=1e-3"])
    {'coefficient': 0.001}
    """
    found = {}
    for text in names(given) or ():
        name, _, value = text.partition("=")
        try:
            found[name] = float(value)
        except ValueError as error:
            raise OptionError(f"--hyper wants NAME=VALUE with a number, found {text!r}: write coefficient=1e-3.") from error
    return found or None


def workers(given: int | None, device: str = "cpu") -> int:
    """How many processes to use: by default one per core, or one for a GPU."""
    require(given is None or given >= 1, "--workers", "at least 1", given)
    return given or (cores() if device == "cpu" else 1)


def device(name: str) -> str:
    """A device that can be used; ``auto`` is a GPU if there is one."""
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise OptionError(f"--device {name} cannot be used here ({reason}): use cpu.") from error
    return name
