"""Values over the epochs."""

from dataclasses import replace

import numpy as np
import pytest

from swr.bench.report.charts.gallery import charts
from swr.bench.report.charts.series import panels
from swr.bench.report.results import Results


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
    assert {row["layer"] for row in rows(chart)} == {"1.weight", "conv 2 · 3.weight", "5.weight"}
    runs = [r for r in results.records if r.config.column == "cifar10-cnn" and r.config.experiment == "warm-start"]
    last = [results.epochs[r.id][-1].norms["3.weight"] for r in runs if r.config.line == "l2"]
    (row,) = [r for r in rows(chart) if (r["line"], r["layer"], r["epoch"]) == ("L2", "conv 2 · 3.weight", 30)]
    assert row["norm"] == pytest.approx(np.mean(last), rel=1e-4)


def test_balancedness_is_drawn_beside_accuracy_and_other_measures_are_not(drawn):
    names = [name for name in drawn if name.startswith("balancedness")]
    assert [name.partition("-cifar10")[0] for name in names] == [
        "balancedness-accuracy",
        "balancedness-l2-2-over-minimum",
        "balancedness-norms",
    ]
    chart = drawn[names[1]]
    assert rows(chart)[9]["mean"] == pytest.approx(1.1)


def test_of_several_coefficients_the_protocols_is_drawn_and_the_caption_says_so(results):
    some = [r for r in results.records if r.config.experiment == "warm-start" and r.config.line == "l2"]
    other = [replace(r, id=r.id[::-1], config=replace(r.config, hyper=(("coefficient", 0.5),))) for r in some]
    epochs = {r.id: results.epochs[r.id[::-1] if r in other else r.id] for r in [*some, *other]}
    found = panels(Results([*other, *some], epochs))
    assert all(record.config.hyper != (("coefficient", 0.5),) for panel in found for record in panel.lines[0].records)
    first = next(iter(charts(Results([*other, *some], epochs))))
    assert "one choice of hyper-parameters" in first.caption


def marks(chart):
    return [unit["mark"]["type"] for unit in layers(chart.spec())]


def test_one_epoch_is_a_point_and_more_are_a_line(results, drawn):
    record = next(r for r in results.records if r.config.experiment == "lr-decay")
    epochs = results.epochs[record.id]
    first, norms = charts(Results([replace(record, last=epochs[0])], {record.id: epochs[:1]}))
    assert [row["epoch"] for row in rows(first, "alone")] == [1]
    assert marks(norms).count("point") == 1
    several = next(chart for name, chart in drawn.items() if name.startswith("lr-decay-accuracy"))
    assert "alone" not in several.data
    assert marks(several).count("point") == marks(first).count("point") - 1


def test_the_band_of_an_accuracy_stays_between_zero_and_one(results):
    records = [r for r in results.records if r.config.experiment == "lr-decay" and r.config.line == "swr"]
    values = {records[0].id: 1.0, records[1].id: 0.5}
    epochs = {run: [replace(e, test_accuracy=value) for e in results.epochs[run]] for run, value in values.items()}
    found = rows(charts(Results(records, epochs))[0])
    assert {(row["low"], row["mean"], row["high"]) for row in found} == {(0.39645, 0.75, 1.0)}


def test_lines_and_columns_have_one_order_however_they_were_run(results, drawn):
    turned = Results(results.records[::-1], results.epochs)
    again = {chart.id: chart for chart in charts(turned)}
    assert list(again) == list(drawn)
    legends = [(name, chart.spec()["params"][1]["value"]) for name, chart in drawn.items() if "accuracy" in name]
    assert legends == [(name, again[name].spec()["params"][1]["value"]) for name, _ in legends]
    (warm,) = [[entry["line"] for entry in value] for name, value in legends if name.startswith("warm-start-accuracy-mnist")]
    assert warm == ["vanilla (cold start)", "vanilla", "L2", "L2 Init", "S&P", "head reset", "SWR"]
