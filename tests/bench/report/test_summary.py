"""The report as Markdown: what it holds, and what it leaves alone."""

import re

import pytest
from stores import SCRIPT, hostile_method, make

from swr.bench.report import summary
from swr.bench.report.charts.gallery import charts
from swr.bench.report.marked_text import MarksError
from swr.bench.report.results import load
from swr.bench.report.tables import tables


@pytest.fixture
def results(tmp_path, monkeypatch):
    hostile_method(monkeypatch)
    make(tmp_path / "s", runs=60, epochs=20, hostile=True)
    return load(tmp_path / "s")


def test_every_cell_stands_there_with_its_time_and_its_command(results):
    text = summary.render(results)
    made = tables(results.records, results.epochs)
    cells = [cell for table in made for row in table.rows for cell in row.cells if cell.done]
    assert len(cells) > 20
    for cell in cells:
        assert str(cell) in text
        assert "\n" in (cell.command or "\n") or f"| `{cell.command}` |" in text
    rows = len(re.findall(r"^\| .* \| \d+ x .+ \| `?.*`? \|$", text, flags=re.M))
    assert len({cell.runs for cell in cells}) <= rows < len(cells), "those of the medians are those of the final accuracy"
    unfolded = re.sub(r"^<details>\n<summary>Time and command of every cell</summary>$|^</details>$", "", text, flags=re.M)
    assert unfolded.count("details") == 0 < text.count("<details>")
    assert not re.search(r"(?<!\\)[<>]", re.sub("`.*?`", "", unfolded)), "a name is shown, not run"
    assert SCRIPT not in text
    assert "![" not in text


def test_charts_are_pictures_beside_the_file(results):
    text = summary.render(results, "../figures")
    for chart in charts(results):
        assert f"](../figures/{chart.id}.png)" in text


def test_what_stands_around_the_marks_is_kept(results, tmp_path):
    path = tmp_path / "results.md"
    summary.write(results, path)
    report = path.read_text()
    path.write_text(f"# Mine\n\n{summary.BEGIN}\nold\n{summary.END}\n\nthe end\n")
    summary.write(results, path)
    assert path.read_text() == f"# Mine\n\n{report}\nthe end\n"
    summary.write(results, path)
    assert path.read_text() == f"# Mine\n\n{report}\nthe end\n"


def test_a_file_without_marks_is_not_touched(results, tmp_path):
    path = tmp_path / "thesis.md"
    path.write_text("years of work")
    with pytest.raises(MarksError, match="does not say where the report goes: add the lines"):
        summary.write(results, path)
    assert path.read_text() == "years of work"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(MarksError, match="is not text: name another file"):
        summary.write(results, path)
    assert path.read_bytes() == b"\xff\xfe"
