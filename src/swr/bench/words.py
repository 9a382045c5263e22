"""Text for people: plural forms, durations, tables on a terminal, and what a value must be."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Sequence
from itertools import pairwise, zip_longest

from swr.errors import OptionError


def plural(number: int, what: str) -> str:
    """A number of things.

    >>> plural(1, "run"), plural(2, "run")
    ('1 run', '2 runs')
    """
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def listed(words: Sequence[str]) -> str:
    """Words in a row.

    >>> listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c"])
    ('a', 'a and b', 'a, b and c')
    """
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


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


def terminal_width() -> int:
    """Characters in a line: those of the terminal (or of COLUMNS), 80 where there is none."""
    return max(40, shutil.get_terminal_size().columns)


def wrapped(text: str, indent: str = "", more: str | None = None, *, width: int | None = None) -> str:
    """Text in lines that fit the terminal, broken between words.

    >>> print(wrapped("a word and another", "  ", width=12))
      a word and
      another

    Args:
        indent: Of the first line.
        more: Of the others, by default the same.
        width: By default that of the terminal.
    """
    return textwrap.fill(
        text,
        width or terminal_width(),
        initial_indent=indent,
        subsequent_indent=indent if more is None else more,
        break_long_words=False,
        break_on_hyphens=False,
    )


def aligned(rows: Sequence[Sequence[str]], *, starts: Sequence[int] = (), width: int | None = None) -> str:
    """A text table that fits the terminal: columns two spaces apart, a line below the first row.

    >>> print(aligned([["name", "epochs"], ["warm-start", "200"]]))
    name        epochs
    ──────────────────
    warm-start  200

    Cells of text are wrapped where the table is too wide. If that does not suffice it is divided, each part with the first
    column.

    >>> print(aligned([["name", "about"], ["lr-decay", "the learning rate falls to a tenth twice"]], width=38))
    name      about
    ──────────────────────────────────────
    lr-decay  the learning rate falls to a
              tenth twice

    Args:
        starts: The columns at which the table may be divided.
        width: By default that of the terminal.
    """
    width = width or terminal_width()
    natural = [max(map(len, column)) for column in zip(*rows, strict=True)]
    widths = _narrowed(rows, natural, width)
    if starts and _total(widths) > width:
        return "\n\n".join(_table(part, _narrowed(part, None, width)) for part in _parts(rows, natural, starts, width))
    return _table(rows, widths)


NARROW = 24
"""columns up to this width are numbers and names, which are not wrapped"""


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + 2 * (len(widths) - 1)


def _narrowed(rows: Sequence[Sequence[str]], natural: Sequence[int] | None, width: int) -> list[int]:
    """The widths of the columns, the widest ones with spaces reduced until the table fits."""
    widths = list(natural or [max(map(len, column)) for column in zip(*rows, strict=True)])
    least = [
        max(NARROW, *(len(word) for cell in column for word in cell.split() or [""])) for column in zip(*rows, strict=True)
    ]
    while _total(widths) > width:
        column = max(range(len(widths)), key=lambda i: widths[i] - least[i])
        if widths[column] <= least[column]:
            break
        widths[column] -= 1
    return widths


def _parts(rows: Sequence[Sequence[str]], natural: Sequence[int], starts: Sequence[int], width: int) -> list[list[list[str]]]:
    """The table in parts that fit, divided at some of the columns that may start one."""
    groups = [range(start, end) for start, end in pairwise([*starts, len(natural)])]
    chosen: list[list[int]] = []
    for group in groups:
        if chosen and _total([natural[0], *(natural[i] for i in (*chosen[-1], *group))]) <= width:
            chosen[-1] += group
        else:
            chosen.append(list(group))
    return [[[row[0], *(row[i] for i in columns)] for row in rows] for columns in chosen]


def _table(rows: Sequence[Sequence[str]], widths: Sequence[int]) -> str:
    lines: list[str] = []
    for row in rows:
        cells = [
            wrapped(cell, width=size).split("\n") if len(cell) > size else [cell]
            for cell, size in zip(row, widths, strict=True)
        ]
        for parts in zip_longest(*cells, fillvalue=""):
            lines.append("  ".join(part.ljust(size) for part, size in zip(parts, widths, strict=True)).rstrip())
        if row is rows[0]:
            lines.append("─" * _total(widths))
    return "\n".join(lines)


def _cell(text: str, width: int) -> list[str]:
    return wrapped(text, width=width).split("\n") if len(text) > width else [text]


def require(ok: bool, name: str, wanted: str, value: object) -> None:
    """Raise an OptionError unless a value is as wanted.

    >>> require(3 >= 1, "batch_size", "at least 1", 3)
    """
    if not ok:
        raise OptionError(f"{name} must be {wanted}, found {value!r}.")
