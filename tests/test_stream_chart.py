"""The README's picture shows the stored runs."""

import csv
import importlib.util
from pathlib import Path
from statistics import fmean

import pytest

ROOT = Path(__file__).parents[1]
spec = importlib.util.spec_from_file_location("stream_chart", ROOT / "tools" / "stream_chart.py")
stream_chart = importlib.util.module_from_spec(spec)
spec.loader.exec_module(stream_chart)


def test_both_pictures_are_made_again_from_the_stored_runs(tmp_path):
    stream_chart.main(tmp_path)
    for name in ("stream-light.svg", "stream-dark.svg"):
        assert (tmp_path / name).read_text() == (ROOT / "docs" / "charts" / name).read_text()


def test_the_lines_have_the_means_of_the_growth_page():
    page = (ROOT / "docs" / "growth.md").read_text()
    rows = {"with SWR, the default": "**SWR, budget 1.5, untuned**", "without SWR": "vanilla"}
    for label, values in stream_chart.accuracies().items():
        assert len(values) == 200
        assert f"| {rows.get(label, label)} | {fmean(values):.4f} ±" in page


def test_missing_runs_are_refused_with_their_number(tmp_path):
    with (ROOT / "results" / "growth" / "runs.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    kept = [row for row in rows if (row["method"], row["seed"]) != ("vanilla", "203")]
    with (tmp_path / "runs.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(kept)
    with pytest.raises(SystemExit, match="'without SWR': 9"):
        stream_chart.accuracies(tmp_path)
