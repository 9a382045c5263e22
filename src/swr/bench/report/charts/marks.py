"""What all charts share: a method's colour and dash, a legend that hides, lines, bands and numbers on hover."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import altair as alt
from altair.typing import ChartType

from swr.bench.report.charts.palette import style
from swr.bench.report.charts.series import Line

Rows = Sequence[Mapping[str, Any]]
ROWS = alt.NamedData("rows")
"""the main data of a chart"""

HEIGHT = 280
WIDTH = 600
"""outside a page, on which charts are as wide as possible"""
SMALL = 220
"""of one of several small charts"""


@dataclass(frozen=True)
class Chart:
    """A chart with its title and caption."""

    id: str
    """its name as a file and as an anchor on the page"""
    experiment: str
    title: str
    caption: str
    chart: ChartType
    """refers to its data by name"""
    data: Mapping[str, Rows]
    kind: Literal["curve", "norms", "sweep"] = "sweep"
    """a value over the epochs, the norms of all layers, or accuracy against hyper-parameters"""
    column: str = ""
    """the name of its dataset and model"""
    label: str = ""
    """what differs from the experiment's protocol"""

    @property
    def wide(self) -> bool:
        """Whether it is many small charts."""
        return isinstance(self.chart, alt.FacetChart)

    def spec(self) -> dict[str, Any]:
        """The whole chart for Vega-Lite: with its data, and the width of its legend."""
        spec = self.chart.to_dict(validate=False)
        room = {"name": "room", "value": WIDTH}
        return {
            **spec,
            "params": [room, *spec.get("params", [])],
            "datasets": {name: list(rows) for name, rows in self.data.items()},
        }


class Legend:
    """The lines of one chart: how they are drawn, and a click on the legend that hides one or shows it again."""

    def __init__(self, lines: Iterable[Line]) -> None:
        lines = list(lines)
        self.titles = [line.title for line in lines]
        styles = [style(line.name) for line in lines]
        self.colours = [one.light for one in styles]
        self.shown = alt.selection_point(
            name="shown",
            fields=["line"],
            bind="legend",
            toggle="true",  # without a key held down
            clear=False,
            empty=False,
            value=[{"line": title} for title in self.titles],
        )
        fitting = alt.ExprRef(_columns(self.titles))
        legend = alt.Legend(orient="bottom", title=None, columns=fitting, symbolType="stroke", labelLimit=240, offset=12)
        self.colour = alt.Color(
            "line:N", sort=self.titles, legend=legend, scale=alt.Scale(domain=self.titles, range=self.colours)
        )
        self.dash = alt.StrokeDash(
            "line:N",
            sort=self.titles,
            legend=legend,
            scale=alt.Scale(domain=self.titles, range=[list(one.dash) for one in styles]),
        )


def slug(*words: str) -> str:
    """Words as a name for a file: small letters, digits, dashes.

    >>> slug("warm-start", "CIFAR-10 (CNN)")
    'warm-start-cifar-10-cnn'
    """
    return re.sub(r"[^a-z0-9]+", "-", "-".join(words).lower())[:80].strip("-") or "chart"


def number(value: float) -> float:
    """Five significant digits: what a chart can show."""
    return float(f"{value:.5g}")


def _columns(titles: Sequence[str]) -> str:
    """An expression for the number of columns that fit into a legend."""
    widths = [40 + 5.7 * min(len(title), 42) for title in titles]
    expression = "1"
    for columns in range(2, len(titles) + 1):
        needed = sum(max(widths[column::columns]) for column in range(columns))
        expression = f"room >= {needed:.0f} ? {columns} : {expression}"
    return expression
