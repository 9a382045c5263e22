from dataclasses import replace

import altair as alt
import pytest
from stores import make

from swr.bench.report.charts.gallery import charts
from swr.bench.report.charts.series import panels
from swr.bench.report.results import Results, load


@pytest.fixture(scope="module")
def drawn(results):
    return {chart.id: chart for chart in charts(results)}


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


def test_runs_of_another_length_have_a_chart_of_their_own(results):
    some = [r for r in results.records if r.config.experiment == "warm-start" and r.config.line == "vanilla"]
    other = [replace(r, id=r.id[::-1], config=replace(r.config, epochs=(3, 3))) for r in some]
    found = panels(Results([*some, *other], {}))
    assert len(found) == 4
    assert {panel.stages for panel in found} == {(15, 15), (3, 3)}
    assert len({panel.title for panel in found}) == 4


def test_names_of_charts_are_unique_and_safe_for_files(tmp_path):
    make(tmp_path / "swr.sqlite", runs=4, epochs=10, hostile=True)
    names = [chart.id for chart in charts(load(tmp_path / "swr.sqlite"))]
    assert len(set(names)) == len(names) > 2
    assert all(set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-") for name in names)
