"""Text for people: plural forms, durations, tables on a terminal, and what a value must be."""

from __future__ import annotations

from collections.abc import Sequence

from swr.errors import OptionError


def plural(number: int, what: str) -> str:
    """A number of things.

    >>> plural(1, "run"), plural(2, "run")
    ('1 run', '2 runs')
    """
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def duration(seconds: float) -> str:
    """A time in words.

    >>> duration(42), duration(100), duration(9000)
    ('42 s', '1 min 40 s', '2 h 30 min')
    """
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s" if whole < 600 else f"{round(whole / 60)} min"
    minutes = round(whole / 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes < 2880 else f"{minutes / 1440:.1f} days"


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """A text table: columns two spaces apart, a line below the first row.

    >>> print(aligned([["name", "epochs"], ["warm-start", "200"]]))
    name        epochs
    ──────────────────
    warm-start  200
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([lines[0], "─" * (sum(widths) + 2 * (len(widths) - 1)), *lines[1:]])


def require(ok: bool, name: str, wanted: str, value: object) -> None:
    """Raise an OptionError unless a value is as wanted.

    >>> require(3 >= 1, "batch_size", "at least 1", 3)
    """
    if not ok:
        raise OptionError(f"{name} must be {wanted}, found {value!r}.")
