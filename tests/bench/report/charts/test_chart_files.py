import re
from xml.etree import ElementTree

import pytest

from swr.bench.report.charts import chart_files
from swr.bench.report.charts.gallery import charts
from swr.bench.report.results import Results

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def some(results):
    """The runs of one experiment, for two charts."""
    records = [r for r in results.records if r.config.experiment == "lr-decay"]
    return Results(records, {record.id: results.epochs[record.id] for record in records})


def test_every_chart_becomes_a_file_by_its_name(some, tmp_path):
    written = chart_files.save(some, tmp_path / "new" / "folder", "svg")
    assert [path.stem for path in written] == [chart.id for chart in charts(some)]
    assert sorted((tmp_path / "new" / "folder").iterdir()) == sorted(written)
    assert len(written) == 2


def test_a_drawing_shows_its_title_legend_and_lines(some):
    chart = charts(some)[0]
    drawing = ElementTree.fromstring(chart_files.draw(chart, "svg"))
    words = [text.text for text in drawing.iter(f"{SVG}text")]
    assert {chart.title, "vanilla", "SWR", "SWR + re-init", "epoch", "lr × 0.1"} <= set(words)
    lines = [group for group in drawing.iter(f"{SVG}g") if "mark-line" in group.get("class", "")]
    assert sum(len(list(group.iter(f"{SVG}path"))) for group in lines) == 5
    assert not re.search(rb"https?://(?!www\.w3\.org)", chart_files.draw(chart, "svg"))


def test_pictures_are_of_the_kind_that_was_asked_for(some):
    chart = charts(some)[0]
    assert chart_files.draw(chart, "png").startswith(b"\x89PNG\r\n")
    assert chart_files.draw(chart, "pdf").startswith(b"%PDF-")
