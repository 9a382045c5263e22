import math
from dataclasses import replace
from itertools import combinations

import altair as alt
import numpy as np
import pytest
from stores import make

from swr import methods
from swr.bench.report import palette
from swr.bench.report.charts import charts
from swr.bench.report.results import Results, load
from swr.bench.report.series import curve, panels, thinned

# From linear RGB: what people without one kind of cone see (Machado, Oliveira and Fernandes 2009, severity 1).
SIGHT = {
    "normal": np.eye(3),
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
# Björn Ottosson's Oklab, in which equal distances look equally different.
CONES = [[0.41222147, 0.53633254, 0.05144599], [0.21190350, 0.68069955, 0.10739696], [0.08830246, 0.28171884, 0.62997870]]
OKLAB = [[0.21045426, 0.79361779, -0.00407205], [1.97799850, -2.42859221, 0.45059371], [0.02590404, 0.78277177, -0.80867577]]


def linear(colour):
    value = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def seen(colour, sight):
    return np.array(OKLAB) @ np.cbrt(np.array(CONES) @ np.clip(np.array(SIGHT[sight]) @ linear(colour), 0, 1))


def contrast(one, other):
    low, high = sorted(linear(colour) @ [0.2126, 0.7152, 0.0722] for colour in (one, other))
    return (high + 0.05) / (low + 0.05)


@pytest.fixture(scope="module")
def drawn(results):
    return {chart.id: chart for chart in charts(results)}


def rows(chart, name="rows"):
    return chart.spec()["datasets"][name]


def layers(spec):
    """Every unit of a chart."""
    if "spec" in spec:
        return layers(spec["spec"])
    return [unit for layer in spec["layer"] for unit in layers(layer)] if "layer" in spec else [spec]


@pytest.mark.parametrize("sight", SIGHT)
@pytest.mark.parametrize("page", ["light", "dark"])
def test_any_two_of_the_papers_methods_look_different_to_everyone(page, sight):
    colours = [getattr(style, page) for name, style in palette.FIXED.items() if name != "cold"]
    distances = [np.linalg.norm(seen(one, sight) - seen(other, sight)) for one, other in combinations(colours, 2)]
    assert min(distances) > 0.09


@pytest.mark.parametrize("name", [*palette.FIXED, *methods.names()])
def test_every_colour_stands_out_from_its_page(name):
    style = palette.style(name)
    assert contrast(style.light, palette.LIGHT) > 2.95
    assert contrast(style.dark, palette.DARK) > 2.95
    assert palette.darker()[style.light] == style.dark


def test_every_method_has_a_style_of_its_own():
    styles = [palette.style(name) for name in ("cold", *methods.names())]
    assert len({(style.light, style.dash) for style in styles}) == len(styles)
    assert palette.style("never heard of") == palette.style("never heard of")


@pytest.mark.parametrize("kind", ["warm-start-accuracy", "lr-decay-norms", "sweep-l2-swr", "sweep-swr", "proportionality"])
def test_charts_fit_the_schema_of_vega_lite(drawn, kind):
    chart = next(chart for name, chart in drawn.items() if kind in name)
    assert chart.chart.to_dict(validate=True)["$schema"].endswith(f"{alt.SCHEMA_VERSION}.json")


def test_everything_that_was_run_is_drawn(drawn):
    kinds = ["accuracy", "norms", "sweep", "proportionality", "over-minimum"]
    assert {kind: sum(kind in name for name in drawn) for kind in kinds} == {
        "accuracy": 5,
        "norms": 5,
        "sweep": 2,
        "proportionality": 1,
        "over-minimum": 1,
    }


def test_a_line_is_the_mean_over_the_seeds_and_the_band_their_spread(results, drawn):
    chart = next(chart for name, chart in drawn.items() if name.startswith("warm-start-accuracy-cifar-10"))
    runs = [r for r in results.records if r.config.column == "cifar10-cnn" and r.config.experiment == "warm-start"]
    values = [results.epochs[r.id][11].test_accuracy for r in runs if r.config.line == "swr"]
    assert len(values) == 2
    (row,) = [row for row in rows(chart) if row["line"] == "SWR" and row["epoch"] == 12]
    assert row["mean"] == pytest.approx(np.mean(values), rel=1e-4)
    assert row["high"] - row["mean"] == pytest.approx(np.std(values, ddof=1), abs=2e-5)
    (text,) = [row for row in rows(chart, "hover") if row["epoch"] == 12]
    assert f"{np.mean(values):.4f} ± {np.std(values, ddof=1):.4f}, n = 2" in text.values()


def test_a_cold_start_is_dashed_and_drawn_where_the_last_stage_is(drawn):
    chart = next(chart for name, chart in drawn.items() if name.startswith("warm-start-accuracy-mnist"))
    cold = [row["epoch"] for row in rows(chart) if row["line"] == "vanilla (cold start)"]
    assert (min(cold), max(cold)) == (16, 30)
    assert [row["line"] for row in rows(chart, "references")] == ["vanilla (cold start)", "vanilla"]
    (dashes,) = {str(u["encoding"]["strokeDash"]["scale"]) for u in layers(chart.spec()) if "strokeDash" in u["encoding"]}
    assert "[7, 4]" in dashes


def test_stages_and_falls_of_the_learning_rate_are_marked(drawn):
    events = {name: rows(chart, "events") for name, chart in drawn.items() if "events" in chart.data}
    ten = next(found for name, found in events.items() if name.startswith("continual-full"))
    assert [event["epoch"] for event in ten] == [3 * stage for stage in range(1, 10)]
    falls = next(found for name, found in events.items() if name.startswith("lr-decay"))
    assert falls == [{"epoch": 14, "event": "lr × 0.1"}, {"epoch": 21, "event": "lr × 0.1"}]


def test_a_failed_run_is_not_part_of_a_line_and_one_seed_has_no_band(results, drawn):
    failed = next(record for record in results.records if record.status == "failed")
    chart = next(chart for name, chart in drawn.items() if name.startswith("warm-start-accuracy-mnist"))
    mine = [row for row in rows(chart) if row["line"] == failed.config.title]
    assert len(mine) == 30
    assert all(row["low"] == row["mean"] == row["high"] for row in mine)


def test_norms_have_a_small_chart_for_every_layer(results, drawn):
    chart = next(chart for name, chart in drawn.items() if name.startswith("warm-start-norms-cifar-10"))
    assert chart.wide
    assert {row["layer"] for row in rows(chart)} == {"1.weight", "3.weight", "5.weight"}
    runs = [r for r in results.records if r.config.column == "cifar10-cnn" and r.config.experiment == "warm-start"]
    last = [results.epochs[r.id][-1].norms["3.weight"] for r in runs if r.config.line == "l2"]
    (row,) = [r for r in rows(chart) if (r["line"], r["layer"], r["epoch"]) == ("L2", "3.weight", 30)]
    assert row["norm"] == pytest.approx(np.mean(last), rel=1e-4)


def test_a_sweep_is_drawn_over_a_logarithmic_axis_and_two_coefficients_as_a_heat_map(drawn):
    over = next(chart for name, chart in drawn.items() if "sweep-l2-swr" in name)
    assert {row["line"] for row in rows(over)} == {"L2", "SWR"}
    assert {row["on"] for row in rows(over)} == {"held-out accuracy", "test accuracy"}
    assert all(unit["encoding"]["x"]["scale"]["type"] == "log" for unit in layers(over.spec()))
    heat = next(chart for name, chart in drawn.items() if "cifar100" in name)
    assert len(rows(heat)) == 25
    marks = [unit["mark"]["type"] for unit in layers(heat.spec())]
    assert marks == ["rect", "text"]


def test_a_coefficient_of_zero_makes_the_axis_a_list(results):
    swept = [r for r in results.records if r.config.method == "l2" and r.config.experiment == "generalization"]
    zero = replace(swept[0], id="zero", config=replace(swept[0].config, hyper=(("coefficient", 0.0),)))
    (chart,) = charts(Results([*swept, zero], {}))
    assert {unit["encoding"]["x"]["type"] for unit in layers(chart.spec())} == {"ordinal"}


def test_three_coefficients_are_ranked_by_name(results):
    swept = [r for r in results.records if r.config.method == "l2" and r.config.experiment == "generalization"]
    three = [
        replace(r, id=str(i), config=replace(r.config, hyper=(("a", i), ("b", i % 2), ("coefficient", i % 3))))
        for i, r in enumerate(swept[:4])
    ]
    (chart,) = charts(Results(three, {}))
    best = max(three, key=lambda record: record.last.validation_accuracy)
    order = layers(chart.spec())[0]["encoding"]["y"]["sort"]
    assert order[0] == " ".join(f"{'λ' if key == 'coefficient' else key}={value:g}" for key, value in best.config.hyper)


def test_proportionality_shows_both_moments_by_ratio(results, drawn):
    chart = next(chart for name, chart in drawn.items() if name.startswith("proportionality"))
    found = {(r["line"], r["ratio"], r["moment"]): r for r in rows(chart)}
    naive = methods.find("naive-scaling").title
    assert found[naive, 0.5, "right after scaling"]["mean"] == pytest.approx(0.3)
    runs = [r for r in results.records if r.config.method == "naive-scaling" and dict(r.config.hyper)["ratio"] == 0.5]
    best = [max(e.test_accuracy for e in results.epochs[r.id] if e.stage == 1) for r in runs]
    assert found[naive, 0.5, "best in further training"]["mean"] == pytest.approx(np.mean(best), rel=1e-4)
    assert [row["line"] for row in rows(chart, "unscaled")] == ["vanilla"]


def test_balancedness_is_drawn_beside_accuracy_and_other_measures_are_not(drawn):
    names = [name for name in drawn if name.startswith("balancedness")]
    assert [name.partition("-cifar10")[0] for name in names] == [
        "balancedness-accuracy",
        "balancedness-l2-2-over-minimum",
        "balancedness-norms",
    ]
    chart = drawn[names[1]]
    assert rows(chart)[9]["mean"] == pytest.approx(1.1)


def test_what_is_not_finite_is_left_out(results):
    record = results.records[0]
    epochs = [replace(e, test_accuracy=math.nan) if e.epoch == 2 else e for e in results.epochs[record.id]]
    found = curve([epochs], lambda epoch: epoch.test_accuracy)
    assert 2 not in found.epochs
    assert len(found.epochs) == len(epochs) - 1
    assert charts(Results([replace(record, status="pending", last=None)], {record.id: []})) == []


def test_long_curves_are_thinned_but_keep_their_ends_and_the_ends_of_stages():
    found = thinned(range(1, 1001), 400, keep=[100, 101, 500])
    assert len(found) < 450
    assert {1, 100, 101, 500, 1000} <= set(found)


def test_runs_of_another_length_have_a_chart_of_their_own(results):
    some = [r for r in results.records if r.config.experiment == "warm-start" and r.config.line == "vanilla"]
    other = [replace(r, id=r.id[::-1], config=replace(r.config, epochs=(3, 3))) for r in some]
    found = panels(Results([*some, *other], {}))
    assert len(found) == 4
    assert {panel.stages for panel in found} == {(15, 15), (3, 3)}
    assert len({panel.title for panel in found}) == 4


def test_of_several_coefficients_the_protocols_is_drawn_and_the_caption_says_so(results):
    some = [r for r in results.records if r.config.experiment == "warm-start" and r.config.line == "l2"]
    other = [replace(r, id=r.id[::-1], config=replace(r.config, hyper=(("coefficient", 0.5),))) for r in some]
    epochs = {r.id: results.epochs[r.id[::-1] if r in other else r.id] for r in [*some, *other]}
    found = panels(Results([*other, *some], epochs))
    assert all(record.config.hyper != (("coefficient", 0.5),) for panel in found for record in panel.lines[0].records)
    first = next(iter(charts(Results([*other, *some], epochs))))
    assert "one choice of hyper-parameters" in first.caption


def test_names_of_charts_are_unique_and_safe_for_files(tmp_path):
    make(tmp_path / "swr.sqlite", runs=4, epochs=10, hostile=True)
    names = [chart.id for chart in charts(load(tmp_path / "swr.sqlite"))]
    assert len(set(names)) == len(names) > 2
    assert all(set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-") for name in names)
