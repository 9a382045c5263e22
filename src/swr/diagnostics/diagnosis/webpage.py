"""A diagnosis as one self-contained page, with its chart drawn as SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from swr.diagnostics.diagnosis.record import LEGEND, measured, number
from swr.diagnostics.diagnosis.verdict import MARGIN

if TYPE_CHECKING:
    from swr.diagnostics.diagnosis.record import Diagnosis

TITLES = {
    "none": "No plasticity lost",
    "some": "Some plasticity lost",
    "lost": "Plasticity lost",
    "unclear": "Cannot tell",
}

STYLE = """
:root { color-scheme: light dark; --text: #1b1f24; --soft: #59636e; --line: #d1d9e0; --back: #fff; --card: #f6f8fa;
  --trained: #b3401f; --fresh: #1f6feb; --none: #1a7f37; --some: #9a6700; --lost: #c02c2c; --unclear: #59636e; }
@media (prefers-color-scheme: dark) { :root { --text: #e6edf3; --soft: #9198a1; --line: #3d444d; --back: #0d1117;
  --card: #151b23; --trained: #ff8f66; --fresh: #6cb0ff; --none: #3fb950; --some: #d9a521; --lost: #ff7b72;
  --unclear: #9198a1; } }
body { margin: 0 auto; max-width: 60rem; padding: 1.5rem 1rem 3rem; background: var(--back); color: var(--text);
  font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 .5rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
header { border-left: .35rem solid var(--verdict); padding: .25rem 0 .25rem 1rem; }
header p { margin: 0; } .soft, figcaption, dd { color: var(--soft); }
figure { margin: 1.5rem 0 0; } svg { display: block; width: 100%; min-width: 36rem; height: auto; }
figcaption { font-size: .875rem; margin-top: .5rem; }
svg text { fill: var(--soft); font: 13px system-ui, sans-serif; } svg .grid { stroke: var(--line); }
.trained { stroke: var(--trained); } .fresh { stroke: var(--fresh); } svg path.line { fill: none; stroke-width: 2; }
svg path.band { stroke: none; opacity: .18; }
path.band.trained { fill: var(--trained); } path.band.fresh { fill: var(--fresh); }
svg text.trained { fill: var(--trained); stroke: none; font-weight: 600; }
svg text.fresh { fill: var(--fresh); stroke: none; font-weight: 600; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .75rem; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; padding-left: 0; } thead th { font-weight: 600; }
.layers { width: 100%; }
pre { margin: .25rem 0 1rem; padding: .6rem .8rem; background: var(--card); border-radius: .4rem; overflow-x: auto; }
ol { padding-left: 1.2rem; } dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; margin: 0; }
dt { font-weight: 600; } dd { margin: 0; }
"""

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 900, 340, 52, 84, 14, 42


def page(found: Diagnosis) -> str:
    """The page as HTML; nothing is loaded from elsewhere."""
    title = TITLES[found.verdict]
    answer = found.sentence[0].upper() + found.sentence[1:]
    rows = found.layer_rows()
    notes = "".join(f'<p class="soft">{escape(note[0].upper() + note[1:])}.</p>' for note in found.notes)
    legend = "".join(f"<dt>{name}</dt><dd>{escape(text)}</dd>" for name, text in LEGEND.items())
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>swr diagnose: {title}</title><style>{STYLE}</style></head>
<body style="--verdict: var(--{found.verdict})">
<header><h1>{title}</h1><p>{escape(answer)}.</p></header>
{chart(found)}
<h2>What to try</h2>
<ol>{"".join(_advice(one.what, one.why, one.code) for one in found.advice)}</ol>
<h2>Layers</h2>
<div class="scroll">{_table(rows, "layers")}</div>
<dl style="margin-top: 1rem">{legend}</dl>
<h2>The test</h2>
{_test(found)}
<div class="scroll">{_table(_rates(found), "rates")}</div>
{notes}
</body></html>
"""


def chart(found: Diagnosis) -> str:
    """Both curves with their intervals."""
    top = 1.15 * max(found.comparison.start, *(p.high for p in found.fresh if math.isfinite(p.high)))
    values = [p.low for p in (*found.trained, *found.fresh) if math.isfinite(p.low)]
    bottom = min(0.0, *values) if min(values, default=0.0) < 0 else 0.0
    top = top if math.isfinite(top) and top > bottom else bottom + 1

    def x(step: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * step / found.steps

    def y(loss: float) -> float:
        shown = min(loss, bottom + 50 * (top - bottom)) if not math.isnan(loss) else top  # what is above the chart is clipped
        return TOP + (HEIGHT - TOP - BOTTOM) * (top - shown) / (top - bottom)

    area = f'x="{LEFT}" y="{TOP - 4}" width="{WIDTH - LEFT - RIGHT}" height="{HEIGHT - TOP - BOTTOM + 6}"'
    parts = [f'<clipPath id="area"><rect {area}/></clipPath>']
    for value in _ticks(bottom, top):
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(value):.1f}" y2="{y(value):.1f}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y(value) + 4:.1f}" text-anchor="end">{value:g}</text>')
    for step in _ticks(0, found.steps):
        parts.append(f'<text x="{x(step):.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{step:g}</text>')
    parts.append(f'<text x="{x(found.steps / 2):.1f}" y="{HEIGHT - 4}" text-anchor="middle">steps on the new task</text>')
    ends = {name: max(y(curve[-1].mean), TOP + 8) for name, curve in (("trained", found.trained), ("fresh", found.fresh))}
    if abs(ends["trained"] - ends["fresh"]) < 16:  # keep the two labels apart
        middle, sign = sum(ends.values()) / 2, 1 if ends["trained"] >= ends["fresh"] else -1
        middle = min(middle, HEIGHT - BOTTOM - 10)
        ends = {"trained": middle + 8 * sign, "fresh": middle - 8 * sign}
    for name, curve in (("fresh", found.fresh), ("trained", found.trained)):
        up = [f"{x(p.step):.1f},{y(p.high):.1f}" for p in curve]
        down = [f"{x(p.step):.1f},{y(p.low):.1f}" for p in reversed(curve)]
        line = " L".join(f"{x(p.step):.1f},{y(p.mean):.1f}" for p in curve)
        parts.append(f'<path class="band {name}" clip-path="url(#area)" d="M{" L".join(up + down)}Z"/>')
        parts.append(f'<path class="line {name}" clip-path="url(#area)" d="M{line}"/>')
        parts.append(f'<text class="{name}" x="{WIDTH - RIGHT + 8}" y="{ends[name] + 4:.1f}">{name}</text>')
    cut = max((p.mean for p in found.trained if math.isfinite(p.mean)), default=0.0)
    more = f" The trained network starts at {number(cut)}, above the chart." if cut > top else ""
    caption = (
        f"Loss{f' in {found.unit}' if found.unit else ''}: mean over {found.comparison.gap.n} pairs, with 95 % intervals.{more}"
    )
    text = f"The trained network ends at {number(found.trained[-1].mean)}, fresh ones at {number(found.fresh[-1].mean)}."
    svg = f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{text}">{"".join(parts)}</svg>'
    return f"<figure><div class='scroll'>{svg}</div><figcaption>{caption}</figcaption></figure>"


def _test(found: Diagnosis) -> str:
    both = found.comparison
    task = {
        "given": f"the {found.batches} given batches",
        "relabelled": f"the {found.batches} batches with other labels for their classes, a related new task",
        "shuffled": f"{found.batches} batches whose targets were shuffled over the examples, an unrelated new task",
    }[found.targets]
    words = (
        f"Copies of the trained network and fresh networks, {both.gap.n} pairs, trained for {found.steps} steps on {task}, "
        "both in the same order and with a new optimizer. Compared is the mean loss of the last tenth of the steps, each "
        "network at the learning rate that is best for it (marked). "
    )
    if both.learned and math.isfinite(both.gap.mean):
        missing = both.missing
        words += (
            f"Difference: {measured(both.gap.mean, both.gap.half)}{f' {found.unit}' if found.unit else ''}, or "
            f"{100 * missing.mean:.0f} ± {100 * missing.half:.0f} % of a fresh network's progress; less than "
            f"{100 * MARGIN:.0f} % counts as none. "
        )
    if found.curvature is not None:
        words += f"Largest curvature at the start: trained {found.curvature[0]:.3g}, fresh {found.curvature[1]:.3g}."
    return f"<p>{escape(words)}</p>"


def _rates(found: Diagnosis) -> list[list[str]]:
    both = found.comparison
    rows = [["learning rate", "trained", "fresh"]]
    for at in both.rates:
        cells = [number(at.trained), number(at.fresh)]
        marked = [
            f"{cell} *" if at.lr == best else cell for cell, best in zip(cells, (both.lr_trained, both.lr_fresh), strict=True)
        ]
        rows.append([f"{at.lr:g}", *marked])
    return rows


def _advice(what: str, why: str, code: str) -> str:
    line = f"<pre><code>{escape(code)}</code></pre>" if code else ""
    return f"<li><b>{escape(what)}</b>: {escape(why)}.{line}</li>"


def _table(rows: Sequence[Sequence[str]], name: str) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in rows[0])
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows[1:])
    return f'<table class="{name}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers inside a range, about five."""
    raw = (high - low) / 5
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(size * m for m in (1, 2, 5, 10) if size * m >= raw)
    first = math.ceil(low / step)
    return [round(step * i, 10) for i in range(first, math.floor(high / step) + 1)]
