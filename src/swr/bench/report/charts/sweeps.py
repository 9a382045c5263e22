"""Accuracy against the hyper-parameters: a line over λ, a heat map over λ_f x λ_c, a list over more."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np
from altair.typing import ChartType

from swr.bench.experiments import column_title, run_description
from swr.bench.report.cells import SHARE
from swr.bench.report.charts.marks import HEIGHT, ROWS, Chart, Legend, Rows, number, slug
from swr.bench.report.charts.series import Line, finals, mean
from swr.bench.report.method_order import column_place, place
from swr.bench.report.results import Results
from swr.bench.store import Record
from swr.bench.words import plural
from swr.methods import describe

ENOUGH = 3
"""points from which a sweep is drawn"""
VIEWS = {"validation": "held-out accuracy", "test": "test accuracy"}


@dataclass(frozen=True)
class Point:
    """One choice of hyper-parameters, over its seeds."""

    hyper: dict[str, float]
    test: list[float]
    validation: list[float]


@dataclass(frozen=True)
class Sweep:
    """The choices that were tried of a method in an experiment on a column."""

    line: Line
    keys: tuple[str, ...]
    """the hyper-parameters that vary"""
    points: tuple[Point, ...]

    @property
    def held_out(self) -> bool:
        """Whether validation data was held out to select on."""
        return self.line.records[0].config.validation > 0

    def symbol(self, key: str) -> str:
        """The paper's symbol of a hyper-parameter."""
        return describe(self.line.records[0].config.method)[1].get(key, key)


def sweeps(results: Results, experiment: str) -> Iterator[Chart]:
    """The sweeps of an experiment; methods whose one hyper-parameter has the same name share a chart."""
    for group in _found(results, experiment):
        together: dict[str, list[Sweep]] = defaultdict(list)
        for sweep in group:
            if len(sweep.points) < ENOUGH:
                continue
            if len(sweep.keys) == 1:
                together[sweep.keys[0]].append(sweep)
            else:
                yield _chart([sweep], _heat_map(sweep) if len(sweep.keys) == 2 else _ranking(sweep))
        for several in together.values():
            yield _chart(several, _over(several))


def sentences(results: Results, experiment: str) -> list[str]:
    """The sweeps of an experiment that have too few points for a chart, a sentence each."""
    found = []
    for sweep in (sweep for group in _found(results, experiment) for sweep in group if len(sweep.points) < ENOUGH):
        config, view = sweep.line.records[0].config, "validation" if sweep.held_out else "test"
        label = run_description.label(config)
        tried = []
        for point in sweep.points:
            values = point.validation if sweep.held_out else point.test
            choice = " ".join(f"{sweep.symbol(key)}={point.hyper.get(key, np.nan):g}" for key in sweep.keys)
            tried.append(f"{mean(values):.4f} with {choice} ({plural(len(values), 'seed')})")
        where = f"{sweep.line.title} on {column_title(config.column)}{f', {label}' if label else ''}"
        found.append(f"{where}: {VIEWS[view]} {', '.join(tried)}.")
    return found


def _found(results: Results, experiment: str) -> list[list[Sweep]]:
    """The sweeps on each column, by what differs from the protocol."""
    groups: dict[tuple[str, run_description.Deviations], dict[str, list[Record]]] = defaultdict(lambda: defaultdict(list))
    for record in results.records:
        config = record.config
        tested = not config.setting.metric.online  # averages over a stream are in its tables
        if config.experiment == experiment and record.status == "done" and tested:
            groups[config.column, run_description.deviations(config)][config.line].append(record)
    columns = sorted(groups, key=lambda key: (bool(key[1]), column_place(key[0])))
    found = [[_sweep(name, groups[key][name]) for name in sorted(groups[key], key=place)] for key in columns]
    return [[sweep for sweep in group if sweep.keys] for group in found]


def _sweep(name: str, records: Sequence[Record]) -> Sweep:
    choices: dict[tuple[tuple[str, float], ...], list[Record]] = defaultdict(list)
    for record in records:
        choices[record.config.hyper].append(record)
    points = tuple(
        Point(dict(hyper), finals(group, lambda e: e.test_accuracy), finals(group, lambda e: e.validation_accuracy))
        for hyper, group in sorted(choices.items())
    )
    keys = dict.fromkeys(key for point in points for key in point.hyper)
    varied = tuple(key for key in keys if len({point.hyper.get(key) for point in points}) > 1)
    return Sweep(Line(name, records[0].config.title, tuple(records)), varied, points)


def _over(group: Sequence[Sweep]) -> tuple[ChartType, Rows]:
    """Accuracy over one hyper-parameter, on a logarithmic axis."""
    key = group[0].keys[0]
    rows = []
    for sweep in group:
        for point in sorted(sweep.points, key=lambda point: point.hyper.get(key, np.nan)):
            for view, values in (("validation", point.validation), ("test", point.test)):
                if values:
                    rows.append({"line": sweep.line.title, "value": point.hyper.get(key), "on": VIEWS[view], **_spread(values)})
    legend = Legend([sweep.line for sweep in group])
    positive = all(row["value"] is not None and row["value"] > 0 for row in rows)
    symbol = group[0].symbol(key)
    tried = sorted({row["value"] for row in rows}) if positive else []
    scale = alt.Scale(type="log", nice=False, padding=16)
    x = (
        alt.X("value:Q", title=symbol, scale=scale, axis=alt.Axis(values=tried, format="~g", grid=False))
        if positive
        else alt.X("value:O", title=symbol, axis=alt.Axis(labelAngle=0))
    )
    y = alt.Y("mean:Q", title="accuracy", scale=alt.Scale(zero=False))
    on = [view for view in (VIEWS["test"], VIEWS["validation"]) if any(row["on"] == view for row in rows)]
    moments = alt.Legend(orient="top", title=None, symbolType="stroke") if len(on) > 1 else None
    dash = alt.StrokeDash("on:N", legend=moments, scale=alt.Scale(domain=on, range=[[1, 0], [4, 3]][: len(on)]))
    base = alt.Chart(ROWS).transform_filter(legend.shown)
    tooltip = [
        alt.Tooltip("line:N", title="method"),
        alt.Tooltip("value:Q", title=symbol, format="~g"),
        *("on:N", "mean:Q", "std:Q", "runs:Q"),
    ]
    bars = base.mark_rule(strokeWidth=1).encode(x, alt.Y("low:Q"), alt.Y2("high:Q"), legend.colour)
    lines = base.mark_line(strokeWidth=2).encode(x, y, legend.colour, dash)
    points = base.mark_point(filled=True, size=70, opacity=1).encode(x, y, legend.colour, tooltip=tooltip)
    return alt.layer(bars, lines, points).add_params(legend.shown).properties(width="container", height=HEIGHT), rows


def _heat_map(sweep: Sweep) -> tuple[ChartType, Rows]:
    """Two hyper-parameters: a cell each."""
    across, up = sweep.keys if sweep.keys[0] == "features" else sweep.keys[::-1]
    rows = [
        {"x": point.hyper.get(across), "y": point.hyper.get(up), "test": number(mean(point.test)), **_spread(values)}
        for point in sweep.points
        if (values := point.validation if sweep.held_out else point.test)
    ]
    middle = (min(row["mean"] for row in rows) + max(row["mean"] for row in rows)) / 2
    base = alt.Chart(ROWS).encode(
        alt.X("x:O", title=sweep.symbol(across), axis=alt.Axis(labelAngle=0, format="~g", domain=False, ticks=False)),
        alt.Y("y:O", title=sweep.symbol(up), sort="descending", axis=alt.Axis(format="~g", domain=False, ticks=False)),
        tooltip=[
            alt.Tooltip("x:Q", title=sweep.symbol(across), format="~g"),
            alt.Tooltip("y:Q", title=sweep.symbol(up), format="~g"),
            alt.Tooltip("mean:Q", title=VIEWS["validation" if sweep.held_out else "test"]),
            *(("test:Q",) if sweep.held_out else ()),
            *("std:Q", "runs:Q"),
        ],
    )
    cells = base.mark_rect(cornerRadius=2).encode(alt.Color("mean:Q", scale=alt.Scale(scheme="cividis"), legend=None))
    dark = alt.datum.mean < middle
    words = base.mark_text(fontSize=12).encode(
        text=alt.Text("mean:Q", format=".4f"), color=alt.condition(dark, alt.value("#fefefe"), alt.value("#101010"))
    )
    return alt.layer(cells, words).properties(width="container", height=HEIGHT), rows


def _ranking(sweep: Sweep) -> tuple[ChartType, Rows]:
    """More than two: the choices by name, the best first."""
    rows = [
        {"choice": " ".join(f"{sweep.symbol(key)}={point.hyper.get(key, np.nan):g}" for key in sweep.keys), **_spread(values)}
        for point in sweep.points
        if (values := point.validation if sweep.held_out else point.test)
    ]
    order = [row["choice"] for row in sorted(rows, key=lambda row: -row["mean"])]
    y = alt.Y("choice:N", sort=order, title=None, axis=alt.Axis(labelLimit=220))
    base = alt.Chart(ROWS).encode(y, tooltip=["choice:N", "mean:Q", "std:Q", "runs:Q"])
    legend = Legend([sweep.line])
    x = alt.X("mean:Q", title="accuracy", scale=alt.Scale(zero=False))
    points = base.mark_point(filled=True, size=70, opacity=1, color=legend.colours[0]).encode(x)
    bars = base.mark_rule(color=legend.colours[0]).encode(alt.X("low:Q"), alt.X2("high:Q"))
    return alt.layer(bars, points).properties(width="container", height=alt.Step(20)), rows


def _chart(group: Sequence[Sweep], drawn: tuple[ChartType, Rows]) -> Chart:
    config, held_out = group[0].line.records[0].config, group[0].held_out
    symbols = " and ".join(dict.fromkeys(sweep.symbol(key) for sweep in group for key in sorted(sweep.keys, reverse=True)))
    whose = ", ".join(sweep.line.title for sweep in group)
    what = f"{'Held-out' if held_out else 'Test'} accuracy against {symbols}, {column_title(config.column)}"
    title = what if len(group) > 1 else f"{whose}: {what[0].lower()}{what[1:]}"
    runs = sorted({len(point.test) for sweep in group for point in sweep.points})
    seeds = f"{runs[0]} to {runs[-1]} seeds" if len(runs) > 1 else plural(runs[0], "seed")
    selected = "held-out training data" if held_out else "the test set, as in the paper"
    label = run_description.label(config)
    setting = f" Runs with {label}." if label else ""
    caption = f"{whose}: final accuracy, mean over {seeds}; selection is by {selected}.{setting}"
    words = [*(sweep.line.name for sweep in group), *group[0].keys, label]
    return Chart(
        slug(config.experiment, config.column, "sweep", *words), config.experiment, title, caption, drawn[0], {"rows": drawn[1]}
    )


def _spread(values: Sequence[float]) -> dict[str, Any]:
    middle, std = mean(values), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    rounded = {"mean": middle, "std": std, "low": max(SHARE[0], middle - std), "high": min(SHARE[1], middle + std)}
    return {**{name: number(value) for name, value in rounded.items()}, "runs": len(values)}
