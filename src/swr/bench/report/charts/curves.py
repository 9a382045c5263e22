"""A value over the epochs: test accuracy with a band over the seeds, norms of every layer, measures of the network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import altair as alt
import numpy as np

from swr.bench.report.cells import SHARE
from swr.bench.report.charts.marks import HEIGHT, ROWS, SMALL, Chart, Legend, Rows, number, slug
from swr.bench.report.charts.series import Curve, Line, Panel, curve, drawn, finals, mean, thinned
from swr.bench.report.layer_names import layer_name
from swr.bench.report.results import Results
from swr.bench.training import Epoch
from swr.bench.training.online import present

POINTS = 400
"""of a line at most, about; a screen shows no more"""
SMALL_POINTS = 60
"""of a line in a small chart"""
BALANCE = "over minimum"
"""how the names of measures end that compare a norm with its minimum among networks of the same function"""
MARKED = 20
"""stages at most whose beginnings are marked; a stream has hundreds"""
UNDER = alt.selection_point(name="under", fields=["epoch"], on="pointerover", clear="pointerout", empty=False)
"""the epoch under the pointer"""


def accuracy(panel: Panel, results: Results) -> Chart | None:
    """Test accuracy over the epochs, or the experiment's metric: one line per method, a band over the seeds, stages marked,
    references dashed."""
    config = panel.lines[0].records[0].config
    what = config.setting.metric.axis
    bounds = None if config.setting.metric.field == "train_loss" else SHARE
    return _lines(panel, results, lambda epoch: present(config, epoch), what, "accuracy", references=True, bounds=bounds)


def measures(panel: Panel, results: Results) -> Iterator[Chart]:
    """Every measure that compares a norm with its minimum."""
    names = {
        name: None
        for line in panel.lines
        for epochs in drawn(line, results)
        for epoch in epochs[:1]
        for name in epoch.measures
        if name.endswith(BALANCE)
    }
    for name in names:
        chart = _lines(panel, results, lambda epoch, name=name: epoch.measures.get(name), name, slug(name))  # type: ignore[misc]
        if chart is not None:
            yield chart


def norms(panel: Panel, results: Results) -> Chart | None:
    """The Frobenius norm of every layer's weight over the epochs, a small chart per layer."""
    runs = {line.title: drawn(line, results) for line in panel.lines}
    layers = list(dict.fromkeys(name for found in runs.values() for epochs in found for e in epochs[:1] for name in e.norms))
    names = {layer: layer_name(panel.column, layer) for layer in layers}
    ends = _ends(panel)
    rows = []
    for key, line in _keys(panel.lines):
        longest = max(runs[line.title], key=len, default=[])
        wanted = set(thinned([epoch.epoch for epoch in longest], SMALL_POINTS, ends if len(ends) < 4 else ()))
        few = [[epoch for epoch in epochs if epoch.epoch in wanted] for epochs in runs[line.title]]
        for layer in layers:
            found = curve(few, lambda epoch, layer=layer: epoch.norms.get(layer))  # type: ignore[misc]
            for epoch, value in zip(found.epochs, found.mean, strict=True):
                at = int(epoch) + panel.shift(line)
                named = names[layer]
                rows.append({"line": line.title, "key": key, "layer": named, "epoch": at, "norm": number(value)})
    if not rows:
        return None
    legend = Legend(panel.lines)
    x = alt.X("epoch:Q", title="epoch", axis=alt.Axis(grid=False, tickMinStep=1, tickCount=4))
    y = alt.Y("norm:Q", title=None, scale=alt.Scale(zero=False), axis=alt.Axis(tickCount=4, labelFlush=True))
    lines = alt.Chart().transform_filter(legend.shown).mark_line(strokeWidth=1.75).encode(x, y, legend.colour, legend.dash)
    numbers = [alt.Tooltip(f"{key}:Q", title=line.title, format=".4~g") for key, line in _keys(panel.lines)]
    pivot = alt.Chart().transform_pivot("key", value="norm", groupby=["layer", "epoch"])
    hover = _rule(pivot, x, SMALL_POINTS, [alt.Tooltip("layer:N"), alt.Tooltip("epoch:Q"), *numbers])
    single = len({row["epoch"] for row in rows}) == 1
    points = alt.Chart().transform_filter(legend.shown).mark_point(filled=True, size=60, opacity=1)
    facets = (
        alt.layer(lines, *([points.encode(x, y, legend.colour)] if single else []), hover)
        .properties(width=SMALL, height=130)
        .add_params(legend.shown)
        .facet(
            alt.Facet("layer:N", title=None, sort=list(names.values()), header=alt.Header(labelLimit=SMALL)),
            columns=3,
            data=ROWS,
        )
        .resolve_scale(y="independent")
        .properties(spacing=24)
    )
    caption = "Frobenius norm of each layer's weight after each epoch, mean over the seeds; every layer has its own scale."
    name, title = slug(panel.experiment, "norms", panel.title), f"Weight norms, {panel.title}"
    return Chart(name, panel.experiment, title, caption, facets, {"rows": rows}, "norms", panel.column, panel.label)


def _lines(
    panel: Panel,
    results: Results,
    value: Callable[[Epoch], float | None],
    what: str,
    name: str,
    *,
    references: bool = False,
    bounds: tuple[float, float] | None = None,
) -> Chart | None:
    curves = {line.title: curve(drawn(line, results), value) for line in panel.lines}
    if not any(len(found.epochs) for found in curves.values()):
        return None
    ends = _ends(panel)
    rows = [row for line in panel.lines for row in _rows(line.title, curves[line.title], panel.shift(line), ends, bounds)]
    legend = Legend(panel.lines)
    data: dict[str, Rows] = {"rows": rows, "hover": _hover(panel, curves)}
    axis = alt.Axis(grid=False, tickMinStep=1, tickCount=alt.ExprRef("width / 80"))
    x = alt.X("epoch:Q", title="epoch", scale=alt.Scale(nice=False, domain=[0, data["hover"][-1]["epoch"]]), axis=axis)
    scale = alt.Scale(nice=False, zero=False, domain=_range(rows))
    y, low = (alt.Y(f"{name}:Q", title=what[0].lower() + what[1:], scale=scale) for name in ("mean", "low"))
    base = alt.Chart(ROWS).transform_filter(legend.shown)
    layers = []
    if events := _events(panel):
        data["events"] = events
        event = alt.Chart(alt.NamedData("events"))
        layers.append(event.mark_rule(opacity=0.35).encode(x))
        words = event.mark_text(align="left", baseline="top", y=0, dx=4, fontSize=10)
        layers.append(words.encode(x, alt.Text("event:N")))
    if any(found.runs.max(initial=0) > 1 for found in curves.values()):
        layers.append(base.mark_area(fillOpacity=0.14, clip=True).encode(x, low, alt.Y2("high:Q"), legend.colour))
    if references and (dashed := _references(panel)):
        data["references"] = dashed
        rule = alt.Chart(alt.NamedData("references")).transform_filter(legend.shown)
        layers.append(rule.mark_rule(strokeDash=[3, 3]).encode(y, legend.colour))
    layers.append(base.mark_line(strokeWidth=2, clip=True).encode(x, y, legend.colour, legend.dash).add_params(legend.shown))
    lengths = Counter(row["line"] for row in rows)
    if alone := [row for row in rows if lengths[row["line"]] == 1]:
        data["alone"] = alone  # a line of one epoch cannot be seen
        dot = alt.Chart(alt.NamedData("alone")).transform_filter(legend.shown)
        layers.append(dot.mark_point(filled=True, size=70, opacity=1).encode(x, y, legend.colour))
    layers.append(
        base.mark_point(filled=True, size=45, opacity=1, clip=True).transform_filter(UNDER).encode(x, y, legend.colour)
    )
    numbers = [alt.Tooltip(f"{key}:N", title=line.title) for key, line in _keys(panel.lines)]
    layers.append(_rule(alt.Chart(alt.NamedData("hover")), x, len(data["hover"]), [alt.Tooltip("epoch:Q"), *numbers]))
    chart = alt.layer(*layers).properties(width="container", height=HEIGHT)
    title = f"{what}, {panel.title}"
    caption = _caption(panel, curves, references)
    id = slug(panel.experiment, name, panel.title)
    return Chart(id, panel.experiment, title, caption, chart, data, "curve", panel.column, panel.label)


def _rows(
    title: str, found: Curve, shift: int, ends: Sequence[int], bounds: tuple[float, float] | None
) -> Iterator[dict[str, Any]]:
    least, most = bounds or (-np.inf, np.inf)
    keep = set(thinned([int(epoch) for epoch in found.epochs], POINTS, [epoch - shift for epoch in ends]))
    for epoch, middle, std in zip(found.epochs, found.mean, found.std, strict=True):
        if int(epoch) in keep:
            row = {"line": title, "epoch": int(epoch) + shift, "mean": number(middle)}
            yield {**row, "low": number(max(least, middle - std)), "high": number(min(most, middle + std))}


def _range(rows: Rows) -> list[float]:
    """The range of all values but those of the first rise, or fall, which would flatten the rest."""
    means, epochs = np.array([row["mean"] for row in rows]), np.array([row["epoch"] for row in rows])
    early = epochs <= np.quantile(epochs, 0.1)
    falls = means[early].mean() > means[~early].mean() if not early.all() else False
    lows, highs = ([row[name] for row in rows] for name in ("low", "high"))  # a band may leave the chart here and there
    low = min(means.min(), np.quantile(lows, 0.02)) if falls else np.quantile(means, 0.04)
    high = np.quantile(means, 0.96) if falls else max(means.max(), np.quantile(highs, 0.98))
    margin = 0.04 * (high - low) or 0.01
    return [number(low - margin), number(high + margin)]


def _ends(panel: Panel) -> list[int]:
    """The last epoch of every stage but the last, and the first after it; none if there are too many stages to be visible."""
    if len(panel.stages) > MARKED:
        return []
    ends = [sum(panel.stages[: index + 1]) for index in range(len(panel.stages) - 1)]
    return [epoch for end in ends for epoch in (end, end + 1)]


def _events(panel: Panel) -> list[dict[str, Any]]:
    """Where a stage begins or the learning rate falls."""
    ends = _ends(panel)[::2]
    few = len(panel.stages) <= 4
    rows = [{"epoch": end, "event": f"stage {index}" if few else str(index)} for index, end in enumerate(ends, start=2)]
    return rows + [{"epoch": drop - 1, "event": f"lr × {panel.factor:g}"} for drop in panel.drops]


def _references(panel: Panel) -> list[dict[str, Any]]:
    """The final accuracy with and without a warm start, where there is a cold start to compare with."""
    found = {line.name: (line.title, finals(line.records, lambda epoch: epoch.test_accuracy)) for line in panel.lines}
    if "cold" not in found:
        return []
    named = [found[name] for name in ("cold", "vanilla") if name in found]
    return [{"line": title, "mean": number(mean(values))} for title, values in named if values]


def _hover(panel: Panel, curves: dict[str, Curve]) -> list[dict[str, Any]]:
    """The numbers of all lines at an epoch, as text."""
    keys = dict(_keys(panel.lines))
    texts: dict[int, dict[str, Any]] = {}
    for key, line in keys.items():
        found, shift = curves[line.title], panel.shift(line)
        for epoch, middle, std, runs in zip(found.epochs, found.mean, found.std, found.runs, strict=True):
            spread = f" ± {std:.4f}" if runs > 1 else ""
            texts.setdefault(int(epoch) + shift, dict.fromkeys(keys, ""))[key] = f"{middle:.4f}{spread}, n = {runs}"
    return [{"epoch": epoch, **texts[epoch]} for epoch in thinned(sorted(texts), POINTS // 2)]


def _rule(chart: alt.Chart, x: alt.X, count: int, tooltip: list[alt.Tooltip]) -> alt.Chart:
    """Rules side by side over the whole width, visible only under the pointer."""
    seen = alt.OpacityValue(0, condition={"param": "under", "empty": False, "value": 0.2})
    wide = chart.mark_rule(strokeWidth=alt.ExprRef(f"max(1, 1.1 * width / {count})"))
    rule: alt.Chart = wide.encode(x, seen, tooltip=tooltip).add_params(UNDER)
    return rule


def _keys(lines: Sequence[Line]) -> list[tuple[str, Line]]:
    """A name for each line's column that is safe in an expression, whatever the method is called."""
    return [(f"l{index}", line) for index, line in enumerate(lines)]


def _caption(panel: Panel, curves: dict[str, Curve], references: bool) -> str:
    seeds = sorted({int(found.runs.max(initial=0)) for found in curves.values()} - {0})
    over = f"{seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else str(seeds[0])
    sentences = [
        f"Mean over {over} seeds; the band is one standard deviation."
        if seeds[-1] > 1
        else "One seed: its spread is not known yet."
    ]
    if len(panel.stages) > MARKED:
        sentences.append(f"The task changes {len(panel.stages) - 1} times.")
    elif len(panel.stages) > 1:
        sentences.append("At a vertical line the training data changes.")
    if panel.drops:
        sentences.append("At a vertical line the learning rate falls.")
    if references and any(line.name == "cold" for line in panel.lines):
        sentences.append(
            "The dashed curve is trained from scratch; dashed across: the final accuracy without and with a warm start."
        )
    if panel.left_out:
        sentences.append(
            f"Of {', '.join(panel.left_out)} one choice of hyper-parameters is drawn: the paper's, else the best in the end."
        )
    return " ".join(sentences)
