"""Differences as a chart of characters beside a table: a mark for each value, a bar for an interval, a line at zero."""

import math
from collections.abc import Iterable, Sequence

from swr.bench.words import aligned

WIDTH = 79
"""columns of a terminal"""
LEAST = 16
"""columns of a chart, however wide the table is"""

Series = tuple[Sequence[float], tuple[float, float] | None]
"""values, and an interval"""


def beside(rows: Sequence[Sequence[str]], series: Sequence[Series], width: int = WIDTH) -> str:
    """A table, a heading and then a row for each of the series, with the chart to its right and its axis below.

    >>> print(beside([["seed", "difference"], ["0", "+1"], ["1", "-1"]], [([1.0], None), ([-1.0], None)], width=35))
    seed  difference
    ────────────────
    0     +1                  │       ●
    1     -1          ●       │
                      -1      0      +1

    Args:
        width: Of the whole.
    """
    head, rule, *lines = aligned(rows).splitlines()
    left = max(map(len, (rule, *lines)))
    axis = Axis((end for values, interval in series for end in (*values, *(interval or ()))), max(LEAST, width - left - 2))
    drawn = [f"{line.ljust(left)}  {axis.draw(*one)}".rstrip() for line, one in zip(lines, series, strict=True)]
    return "\n".join([head, rule, *drawn, f"{' ' * left}  {axis.labels()}"])


class Axis:
    """From the smallest to the largest value, zero included, over a number of characters."""

    def __init__(self, values: Iterable[float], width: int) -> None:
        ends = [0.0, *filter(math.isfinite, values)]
        self.low, self.high, self.width = min(ends), max(ends), width
        if self.low == self.high:
            self.low, self.high = -1e-4, 1e-4

    def at(self, value: float) -> int:
        """The character of a value."""
        return round((value - self.low) / (self.high - self.low) * (self.width - 1))

    def draw(self, values: Sequence[float], interval: tuple[float, float] | None) -> str:
        """A line of the chart."""
        cells = [" "] * self.width
        if interval is not None:
            low, high = map(self.at, interval)
            cells[low : high + 1] = "─" * (high - low + 1)
        cells[self.at(0.0)] = "┼" if cells[self.at(0.0)] == "─" else "│"
        for value in filter(math.isfinite, values):
            cells[self.at(value)] = "●"
        return "".join(cells)

    def labels(self) -> str:
        """The axis: its two ends and zero, where there is room."""
        cells = [" "] * self.width
        for value, start in ((0.0, self.at(0.0)), (self.low, 0), (self.high, None)):
            text = "0" if value == 0 else f"{value:+.4f}".rstrip("0").rstrip(".")
            first = self.width - len(text) if start is None else min(start, self.width - len(text))
            if all(cell == " " for cell in cells[max(0, first - 1) : first + len(text) + 1]):
                cells[first : first + len(text)] = text
        return "".join(cells).rstrip()
