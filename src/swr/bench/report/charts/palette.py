"""One style per method, the same in every chart: a colour for light and dark pages, and a dash.

The colours are Okabe and Ito's (jfly.uni-koeln.de/color), changed as little as needed so that each stands out from the page
(contrast 3 : 1) and any two stay apart for every kind of colour vision. The paper's methods have a colour of their own; all
others go through the same colours with another dash. Long dashes belong to the reference lines.
"""

import zlib
from dataclasses import dataclass
from typing import Any

from swr import methods

LIGHT, DARK = "#ffffff", "#15181d"
"""the background of the charts"""

FONT = "system-ui, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"


@dataclass(frozen=True)
class Style:
    """How a method is drawn."""

    light: str
    dark: str
    dash: tuple[int, ...] = (1, 0)
    """lengths of strokes and gaps"""


_BLUE = ("#0163a0", "#006eac")
_SKY = ("#399dd9", "#54b7ee")
_GREEN = ("#149069", "#009c6f")
_GOLD = ("#bb8e18", "#e9a41f")
_VERMILLION = ("#c45000", "#d55e00")
_PINK = ("#e769a3", "#cc7cae")
_INK = ("#222222", "#ededed")
_GREY = ("#767676", "#9a9a9a")

FIXED: dict[str, Style] = {
    "cold": Style(*_GREY, dash=(7, 4)),
    "vanilla": Style(*_INK),
    "l2": Style(*_BLUE),
    "l2-init": Style(*_SKY),
    "shrink-perturb": Style(*_GREEN),
    "head-reset": Style(*_GOLD),
    "swr": Style(*_VERMILLION),
    "swr-reinit": Style(*_PINK),
}
"""the lines of the paper"""

_CYCLE = (_BLUE, _VERMILLION, _GREEN, _PINK, _SKY, _GOLD, _INK)
_DASHES = ((2, 2), (9, 3, 2, 3), (1, 4), (9, 3, 2, 3, 2, 3), (14, 3), (4, 2, 1, 2))


def style(line: str) -> Style:
    """How a line of a table or chart is drawn: a method by its name, or ``cold``.

    >>> style("swr").light
    '#c45000'
    """
    if line in FIXED:
        return FIXED[line]
    others = [name for name in methods.names() if name not in FIXED]
    index = others.index(line) if line in others else zlib.crc32(line.encode())
    return Style(*_CYCLE[index % len(_CYCLE)], dash=_DASHES[index // len(_CYCLE) % len(_DASHES)])


def darker() -> dict[str, str]:
    """The colour on a dark page for each colour on a light one."""
    return dict((*_CYCLE, _GREY))


def theme(*, dark: bool = False) -> dict[str, Any]:
    """Vega-Lite's configuration for charts on a light or a dark page."""
    ink, soft, grid = ("#e4e7eb", "#a9b0ba", "#2b3038") if dark else ("#1d2127", "#59616c", "#e7e9ec")
    return {
        "background": "transparent",
        "font": FONT,
        "view": {"stroke": "transparent"},
        "axis": {
            "labelColor": soft,
            "titleColor": soft,
            "titleFontWeight": "normal",
            "labelFontSize": 11,
            "titleFontSize": 12,
            "titlePadding": 8,
            "gridColor": grid,
            "domainColor": grid,
            "tickColor": grid,
            "tickSize": 4,
        },
        "legend": {
            "labelColor": ink,
            "titleColor": soft,
            "labelFontSize": 12,
            "titleFontSize": 12,
            "titleFontWeight": "normal",
            "symbolStrokeWidth": 2.5,
            "symbolSize": 220,
            "columnPadding": 14,
            "unselectedOpacity": 0.3,
        },
        "header": {"labelColor": ink, "titleColor": soft, "labelFontSize": 12, "titleFontWeight": "normal"},
        "text": {"color": soft},
        "rule": {"color": soft},
    }
