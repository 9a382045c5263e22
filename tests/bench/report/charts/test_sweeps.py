"""Accuracy against hyper-parameters."""

import re
from dataclasses import replace

import pytest

from swr.bench.report.charts.gallery import charts, remarks
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


def test_fewer_than_three_points_are_a_sentence(results):
    swept = [r for r in results.records if r.config.method == "l2" and r.config.experiment == "generalization"]
    choices = sorted({r.config.hyper for r in swept})
    two = Results([r for r in swept if r.config.hyper in choices[:2]], {})
    assert charts(two) == []
    (sentence,) = remarks(two)["generalization"]
    assert re.fullmatch(
        r"L2 on MNIST \(MLP\), 10 of 200 epochs, 10 % of the training data held out: held-out accuracy "
        r"0\.\d{4} with λ=1e-05 \(2 seeds\), 0\.\d{4} with λ=0.0001 \(2 seeds\)\.",
        sentence,
    )
    three = Results([r for r in swept if r.config.hyper in choices[:3]], {})
    assert len(charts(three)) == 1
    assert remarks(three) == {}
