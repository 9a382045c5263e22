import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markupsafe import escape
from stores import HOSTILE, SCRIPT, finished, hostile_method, make

from swr.bench import experiments
from swr.bench.report import formats, notes, page
from swr.bench.report.inline import embedded, packed
from swr.bench.report.results import Results, load
from swr.bench.report.tables import tables


class Elements(HTMLParser):
    """The elements of a page, each with its attributes and the text in it."""

    def __init__(self, text):
        super().__init__()
        self.found, self._open = [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.found.append([tag, dict(attributes), ""])
        if tag not in ("meta", "input", "br", "link", "img"):
            self._open.append(self.found[-1])

    def handle_endtag(self, tag):
        while self._open and self._open.pop()[0] != tag:
            pass

    def handle_data(self, data):
        for element in self._open:
            element[2] += data

    def all(self, tag, **wanted):
        return [
            (attributes, text)
            for name, attributes, text in self.found
            if name == tag and all(attributes.get(key.rstrip("_")) == value for key, value in wanted.items())
        ]


@pytest.fixture(scope="module")
def elements(html):
    return Elements(html)


def test_the_page_needs_nothing_from_elsewhere(elements):
    assert not [name for name, attributes, _ in elements.found if attributes.get("src") or name in ("link", "iframe", "img")]
    assert all(attributes["href"].startswith("#") for attributes, _ in elements.all("a"))


def test_only_the_pages_own_scripts_may_run(elements):
    (policy,) = [a["content"] for a, _ in elements.all("meta") if a.get("http-equiv") == "Content-Security-Policy"]
    scripts = [text for attributes, text in elements.all("script") if "type" not in attributes]
    hashes = {f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in scripts}
    assert len(scripts) == 2
    assert set(re.search("script-src ([^;]*)", policy)[1].split()) == hashes
    assert "default-src 'none'" in policy
    assert "connect-src" not in policy
    assert "unsafe-eval" not in policy


def test_every_table_stands_on_the_page_with_texts_to_copy(elements, results):
    made = tables(results.records, results.epochs)
    copies = [json.loads(text) for a, text in elements.all("script", type="application/json") if '"LaTeX"' in text]
    assert len(copies) == len(made)
    assert sorted(texts["CSV"] for texts in copies) == sorted(map(formats.csv, made))
    assert all(texts["LaTeX"].count(r"\begin{table}") == 1 for texts in copies)


def test_a_table_shows_values_and_its_fold_everything_that_belongs_to_them(elements, results):
    table = next(table for table in tables(results.records, results.epochs) if table.experiment == "lr-decay")
    cell = next(row for row in table.rows if row.line == "swr").cells[0]
    link = next(a for a, text in elements.all("a") if "data-cell" in a and text == str(cell))
    (row,) = [text for a, text in elements.all("tr") if a.get("id") == link["data-cell"]]
    assert link["href"] == f"#{link['data-cell']}"
    for text in (str(cell), f"{cell.interval[0]:.4f} to {cell.interval[1]:.4f}", f"{cell.p:.2g}", cell.command, cell.hyper):
        assert text in row
    values = [text.strip() for _, text in elements.all("td") if text.strip().startswith(str(cell))]
    assert str(cell) in values, "in the table the value stands alone"


def test_every_cell_of_the_matrix_leads_to_its_numbers(elements):
    rows = {a["id"] for a, _ in elements.all("tr") if "id" in a}
    links = [a["data-cell"] for a, _ in elements.all("a") if "data-cell" in a]
    assert len(links) > 60
    assert set(links) <= rows
    assert len(rows) == len([1 for a, _ in elements.all("tr") if "id" in a]), "ids are unique"


def test_what_is_said_under_many_tables_stands_on_the_page_once(html, results):
    shown = html.replace("&#39;", "'").partition("<script>")[0]
    shown = re.sub(r'<script type="application/json">.*?</script>', "", shown, flags=re.S)
    said = {note for table in tables(results.records, results.epochs) for note in table.notes if note in notes.COMMON}
    assert len(said) >= 5
    assert {note: shown.count(note) for note in said} == dict.fromkeys(said, 1)


def test_folds_are_closed_and_hold_norms_and_other_measures(elements):
    folds = {text.strip().splitlines()[0]: a for a, text in elements.all("details", class_="fold")}
    assert "open" not in {name for a in folds.values() for name in a}
    assert {"Weight norms of every layer", "Median test accuracy of the last tenth of the epochs"} <= set(folds)
    assert len({a["id"] for a, _ in elements.all("details", class_="fold")}) == len(elements.all("details", class_="fold"))


def test_runs_with_raw_inputs_are_marked_in_the_list(tmp_path):
    some = {"columns": ["mnist-mlp"], "methods": ["vanilla"], "seeds": 1}
    usual, raw = experiments.expand("generalization", **some), experiments.expand("generalization", **some, inputs="raw")
    finished(tmp_path / "swr.sqlite", [*usual, *raw])
    found = Elements(page.render(load(tmp_path / "swr.sqlite")))
    marked = {a["data-text"].split()[-1]: text for a, text in found.all("tbody") if "data-status" in a}
    assert "raw inputs" in marked[raw[0].identity]
    assert "raw inputs" not in marked[usual[0].identity].partition("inputs: ")[0]
    assert [text for _, text in found.all("span", class_="mark")] == ["raw inputs"]


def test_an_incomplete_cell_says_so(elements):
    notes = [text for _, text in elements.all("span", class_="note")]
    assert any("1 of 2 seeds" in note for note in notes)


def test_runs_are_listed_with_their_configuration_and_a_failure_with_its_error(elements, results):
    runs = [attributes for attributes, _ in elements.all("tbody") if "data-status" in attributes]
    assert len(runs) == len(results.records)
    assert {attributes["data-status"] for attributes in runs} == {"done", "waiting", "failed"}
    errors = [text for _, text in elements.all("tr", class_="error")]
    assert len(errors) == 1
    assert "Traceback" in errors[0]
    assert "the loss fell over" in errors[0]
    assert any("label_noise: 0.0" in text for _, text in elements.all("pre"))


def test_the_head_counts_the_runs_and_says_where_they_come_from(elements, results):
    counts = {text.split()[1]: int(text.split()[0]) for a, text in elements.all("li") if "none" not in a.get("class", "none")}
    assert counts == {"done": len(results.records) - 3, "waiting": 2, "failed": 1}
    (origin,) = [text for _, text in elements.all("p", class_="origin")]
    assert "torch 2.13.0" in origin
    assert "0123abc" in origin


def test_hostile_names_are_shown_and_not_run(tmp_path, monkeypatch):
    hostile_method(monkeypatch)
    make(tmp_path / "swr.sqlite", runs=4, epochs=10, hostile=True)
    text = page.render(load(tmp_path / "swr.sqlite"))
    assert SCRIPT not in text
    assert escape(SCRIPT) in text
    found = Elements(text)
    assert len([1 for attributes, _ in found.all("script") if "type" not in attributes]) == 2
    assert any(SCRIPT in shown for _, shown in found.all("th"))
    (error,) = [shown for _, shown in found.all("tr", class_="error")]
    assert HOSTILE.replace("\r\n", "\n") in error.replace("\r\n", "\n")
    for attributes, data in found.all("script"):
        if attributes.get("type") == "application/json":
            json.loads(data)


def test_json_in_a_script_cannot_end_it():
    text = embedded({"a": "</script><!-- <script>\u2028"})
    assert "<" not in text
    assert json.loads(text) == {"a": "</script><!-- <script>\u2028"}


def test_packed_rows_hold_everything():
    rows = [
        {"line": "a", "epoch": 1, "mean": 0.5},
        {"line": "b", "epoch": 2, "mean": None},
        {"line": "a", "epoch": 3, "mean": 1.5},
    ]
    found = packed(rows)
    columns = {k: [v["words"][i] for i in v["at"]] if isinstance(v, dict) else v for k, v in found.items()}
    assert [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)] == rows


def test_an_empty_store_gives_a_page_that_says_what_to_do():
    text = page.render(Results([], {}))
    assert "swr run" in text
    assert "<script" not in text


def test_writing_leaves_the_page_alone_in_its_folder(results, tmp_path, monkeypatch):
    page.write(Results([], {}), tmp_path / "report.html")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    before = (tmp_path / "report.html").read_text()
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        page.save("half", tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text() == before
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.slow
def test_the_page_of_a_thousand_runs_stays_small(tmp_path):
    make(tmp_path / "swr.sqlite", runs=1000, epochs=200)
    assert len(page.render(load(tmp_path / "swr.sqlite")).encode()) < 15e6
