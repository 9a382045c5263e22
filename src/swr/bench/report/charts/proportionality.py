"""The paper's figure on proportionality: the accuracy right after scaling, and the best one of further training."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import altair as alt

from swr.bench.experiments import AT_START, column_title, run_description
from swr.bench.report.charts.marks import HEIGHT, ROWS, Chart, Legend, number, slug
from swr.bench.report.charts.series import Line, mean
from swr.bench.report.method_order import place
from swr.bench.report.results import Results
from swr.bench.store import Record
from swr.bench.training import Epoch

EXPERIMENT = "proportionality"
MOMENTS = ("best in further training", "right after scaling")


def proportionality(results: Results) -> list[Chart]:
    """One chart per column: accuracy by ratio, a colour for each kind of scaling, dashed right after it."""
    found: dict[tuple[str, run_description.Deviations], dict[str, list[Record]]] = defaultdict(lambda: defaultdict(list))
    for record in results.records:
        if record.config.experiment == EXPERIMENT:
            found[record.config.column, run_description.deviations(record.config)][record.config.method].append(record)
    charts = []
    for (column, _), methods in found.items():
        lines = [
            Line(name, records[0].config.title, tuple(records))
            for name, records in sorted(methods.items(), key=lambda item: place(item[0]))
        ]
        rows = [row for line in lines for row in _rows(line, results)]
        if any("ratio" in row for row in rows):
            title = ", ".join(filter(None, [column_title(column), run_description.label(lines[0].records[0].config)]))
            charts.append(_chart(title, lines, rows))
    return charts


def scores(epochs: list[Epoch]) -> tuple[float | None, float | None]:
    """Of a run: the accuracy right after scaling, and the best of the stage after it."""
    after = [epoch for epoch in epochs if epoch.stage == 1]
    if not after:
        return None, None
    return after[0].measures.get(AT_START), max(epoch.test_accuracy for epoch in after)


def _rows(line: Line, results: Results) -> list[dict[str, Any]]:
    """By ratio and moment; a method that scales nothing has no ratio, and only the best accuracy of further training."""
    values: dict[tuple[float | None, str], list[float]] = defaultdict(list)
    for record in line.records:
        if record.status == "done":
            ratio = dict(record.config.hyper).get("ratio")
            start, best = scores(results.epochs.get(record.id, []))
            for moment, value in zip(MOMENTS, (best, start if ratio else None), strict=True):
                if value is not None:
                    values[ratio, moment].append(value)
    return [
        {
            "line": line.title,
            **({"ratio": ratio} if ratio else {}),
            "moment": moment,
            "mean": number(mean(found)),
            "low": number(min(found)),
            "high": number(max(found)),
            "runs": len(found),
        }
        for (ratio, moment), found in sorted(values.items(), key=lambda item: (item[0][0] or 0, item[0][1]))
    ]


def _chart(where: str, lines: list[Line], rows: list[dict[str, Any]]) -> Chart:
    legend = Legend(lines)
    scaled = [row for row in rows if "ratio" in row]
    unscaled = [row for row in rows if "ratio" not in row]
    ratios = sorted({row["ratio"] for row in scaled})
    scale = alt.Scale(type="log", nice=False, padding=16)
    x = alt.X("ratio:Q", title="ratio of scaling", scale=scale, axis=alt.Axis(values=ratios, format="~g", grid=False))
    y = alt.Y("mean:Q", title="test accuracy", scale=alt.Scale(zero=False))
    dash = alt.StrokeDash(
        "moment:N",
        legend=alt.Legend(orient="top", title=None, symbolType="stroke", labelLimit=300),
        scale=alt.Scale(domain=list(MOMENTS), range=[[1, 0], [5, 4]]),
    )
    base = alt.Chart(ROWS).transform_filter(legend.shown)
    tooltip = [alt.Tooltip("line:N", title="method"), "ratio:Q", "moment:N", "mean:Q", "low:Q", "high:Q", "runs:Q"]
    bars = base.mark_rule(strokeWidth=1).encode(x, alt.Y("low:Q"), alt.Y2("high:Q"), legend.colour)
    curves = base.mark_line(strokeWidth=2).encode(x, y, legend.colour, dash)
    points = base.mark_point(filled=True, size=60, opacity=1).encode(x, y, legend.colour, tooltip=tooltip)
    rule = alt.Chart(alt.NamedData("unscaled")).transform_filter(legend.shown)
    across = [rule.mark_rule(strokeWidth=1.5).encode(y, legend.colour)] if unscaled else []
    chart = alt.layer(*across, bars, curves, points).add_params(legend.shown).properties(width="container", height=HEIGHT)
    return Chart(
        slug(EXPERIMENT, where),
        EXPERIMENT,
        f"Test accuracy after scaling, {where}",
        "Weights multiplied by the ratio, layer by layer: naively, or in proportion (Theorem 1). Dashed: right after it; "
        "solid: the best accuracy of the training that follows, across for weights left alone. "
        "Bars go from the lowest to the highest seed.",
        chart,
        {"rows": scaled, **({"unscaled": unscaled} if unscaled else {})},
    )
