"""Mermaid flowcharts as inline SVG: a repository draws them itself, a site that opens from disk has no script to do so.

Understands what ``tools/import_graph.py`` writes: ``flowchart BT`` with lines ``key["label"]`` and ``a --> b``. The target of
an arrow stands below its source.
"""

from __future__ import annotations

import re
from functools import cache
from html import escape

WIDTH, HEIGHT, ROW, COLUMN = 150, 30, 62, 180
"""of a box, and from one box to the next"""


def svg(text: str) -> str:
    """The drawing, in the colours of the text around it.

    Args:
        text: The content of a Mermaid block.

    Raises:
        ValueError: A line is neither of the two kinds.
    """
    labels: dict[str, str] = {}
    arrows: list[tuple[str, str]] = []
    for line in text.strip().splitlines()[1:]:
        if box := re.fullmatch(r'\s*(\w+)\["(.+)"\]', line):
            labels[box[1]] = box[2]
        elif arrow := re.fullmatch(r"\s*(\w+) --> (\w+)", line):
            arrows.append((arrow[1], arrow[2]))
        else:
            raise ValueError(f'a flowchart has lines key["label"] and a --> b, found {line!r}.')
    places = _places(list(labels), arrows)
    width = 2 * max(abs(x) for x, _ in places.values()) + WIDTH + 2
    height = max(y for _, y in places.values()) + HEIGHT + 2
    size = f'viewBox="0 0 {width:g} {height:g}" width="{width:g}"'
    parts = [
        f'<svg class="flowchart" {size} role="img" aria-label="What imports what">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="currentColor"/></marker></defs>',
    ]
    for start, end in arrows:
        (x1, y1), (x2, y2) = places[start], places[end]
        ends = f'x1="{x1 + width / 2:g}" y1="{y1 + HEIGHT:g}" x2="{x2 + width / 2:g}" y2="{y2:g}"'
        parts.append(f'<line {ends} stroke="currentColor" stroke-opacity=".6" marker-end="url(#tip)"/>')
    for key, (x, y) in places.items():
        left, middle = x + width / 2 - WIDTH / 2, x + width / 2
        box = f'x="{left:g}" y="{y:g}" width="{WIDTH}" height="{HEIGHT}" rx="5"'
        parts.append(f'<rect {box} fill="none" stroke="currentColor"/>')
        parts.append(
            f'<text x="{middle:g}" y="{y + 20:g}" font-size="14" text-anchor="middle" fill="currentColor">'
            f"{escape(labels[key])}</text>"
        )
    return "\n".join([*parts, "</svg>"])


def _places(keys: list[str], arrows: list[tuple[str, str]]) -> dict[str, tuple[float, float]]:
    """The middle of each box from the middle of the drawing, and its top."""

    @cache
    def depth(key: str) -> int:
        return max((depth(end) + 1 for start, end in arrows if start == key), default=0)

    rows: dict[int, list[str]] = {}
    for key in keys:
        importers = [depth(start) for start, end in arrows if end == key]
        lifted = not any(start == key for start, _ in arrows) and importers  # it stands just below what needs it
        rows.setdefault(min(importers) - 1 if lifted else depth(key), []).append(key)
    return {
        key: ((i - (len(row) - 1) / 2) * COLUMN, 1 + (max(rows) - number) * ROW)
        for number, row in rows.items()
        for i, key in enumerate(row)
    }
