"""Values from the texts of the command line."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from swr.bench.running import cores
from swr.bench.words import require
from swr.errors import OptionError

LARGEST = torch.finfo(torch.float32).max


def names(given: Sequence[str]) -> list[str] | None:
    """Names separated by spaces or commas; None if the option was left out.

    >>> names(["cold,vanilla", "swr"])
    ['cold', 'vanilla', 'swr']
    >>> names([]), names([""])
    (None, [])
    """
    return [name for text in given for name in text.split(",") if name] if given else None


def hyper(given: Sequence[str]) -> dict[str, float] | None:
    """Numbers by name; None if the option was left out.

    >>> hyper(["coefficient=1e-3"])
    {'coefficient': 0.001}
    """
    if not given:
        return None
    found: dict[str, float] = {}
    for text in names(given) or [""]:
        name, _, value = text.partition("=")
        try:
            number = float(value)
        except ValueError as error:
            raise OptionError(f"--hyper wants NAME=VALUE with a number, found {text!r}: write coefficient=1e-3.") from error
        require(abs(number) <= LARGEST, f"{name} in --hyper", "a finite number of single precision", number)
        require(name not in found, "--hyper", "one value for each name", text)
        require(name != "seed", "--hyper", "without a seed, which --seeds sets", text)
        found[name] = number
    return found


def grid(given: Sequence[str]) -> dict[str, list[float]] | None:
    """Values to try by name; None without any.

    >>> grid(["coefficient=1e-3,1e-2"])
    {'coefficient': [0.001, 0.01]}
    """
    found: dict[str, list[float]] = {}
    for text in given:
        name, _, values = text.partition("=")
        if name in found:
            raise OptionError(f"--grid has {name} twice: write all its values in one list, {name}=VALUE,VALUE.")
        try:
            found[name] = [float(value) for value in values.split(",")]
        except ValueError as error:
            raise OptionError(
                f"--grid wants NAME=VALUE,VALUE with numbers, found {text!r}: write coefficient=1e-3,1e-2."
            ) from error
    return found or None


def seeds(given: str | None) -> int | range | None:
    """How many seeds, from 0 on; or which.

    >>> seeds("5"), seeds("100-109")
    (5, range(100, 110))
    """
    if given is None:
        return None
    first, _, last = given.rpartition("-")
    if first.isdecimal() and last.isdecimal() and int(first) <= int(last):
        return range(int(first), int(last) + 1)
    try:
        return int(given)
    except ValueError as error:
        raise OptionError(f"--seeds wants a number, or the first and the last, found {given!r}: write 5 or 100-109.") from error


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
