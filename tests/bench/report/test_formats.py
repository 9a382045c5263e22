import csv
import io
import re
from dataclasses import replace

import pytest
from stores import HOSTILE, SCRIPT, hostile_method, records

from swr.bench.report import formats
from swr.bench.report.tables import tables
from swr.bench.report.terminal import text


@pytest.fixture(scope="module")
def found():
    """Tables of every kind, some cells incomplete, with names that would break a page."""
    with pytest.MonkeyPatch.context() as patch:
        hostile_method(patch)
        known = records(hostile=True)
        for index, status in ((3, "failed"), (30, "running"), (90, "pending")):
            known[index] = replace(known[index], status=status)
        return tables(known)


def unescaped(line):
    """The fields of a row of a Markdown table, read as CommonMark does."""
    fields = re.split(r"(?<!\\)(?:\\\\)*\|", line)[1:-1]
    return [re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", field).strip() for field in fields]


def test_markdown_reads_back_what_the_table_holds(found):
    for table in found:
        lines = formats.markdown(table).splitlines()
        rows = [unescaped(line) for line in lines if line.startswith("|")]
        assert len({len(row) for row in rows}) == 1
        assert len(rows) == 2 + len(table.rows)
        for row, line in zip(table.rows, rows[2:], strict=True):
            assert line[0] == " ".join(row.title.split())
            cell = row.cells[0]
            assert line[1].removeprefix("**").startswith(str(cell))
            assert line[1].startswith("**") == cell.best
            assert cell.note in line[1]
        assert sum(line.startswith("- ") for line in lines) >= 2


def test_nothing_in_markdown_is_html(found):
    everything = "\n".join(map(formats.markdown, found))
    assert "script" in everything
    assert not re.search(r"(?<!\\)[<>]", everything)


def test_the_published_value_and_the_difference_stand_beside(found):
    table = next(table for table in found if table.title == "generalization")
    head = unescaped(formats.markdown(table).splitlines()[2])
    assert head[1:4] == ["MNIST (MLP)", "paper", "difference"]
    row = next(line for line in formats.markdown(table).splitlines() if line.startswith("| SWR |"))
    cell = next(row for row in table.rows if row.line == "swr").cells[0]
    assert unescaped(row)[2:4] == ["0.9822 ± 0.0024", f"{cell.difference:+.4f} ({cell.difference / 0.0024:+.1f} sd)"]
    assert f"{cell.difference:+.4f}" in text(table)


def test_latex_is_balanced_and_escaped(found):
    for table in found:
        body, _, notes = formats.latex(table).partition("\\end{table}\n")
        assert all(line.startswith("% ") for line in notes.splitlines())
        assert body.index(r"\toprule") < body.index(r"\midrule") < body.index(r"\bottomrule")
        bare = re.sub(r"\\[\\&%$#_{}]", "", body)
        assert bare.count("{") == bare.count("}")
        assert bare.count("$") % 2 == 0
        assert not set('#%~^<>|"') & set(bare)
        columns = len(re.search(r"\\begin{tabular}{(l[r]*)}", body)[1])
        rows = re.findall(r"^(.*) \\\\$", body, flags=re.M)
        assert len(rows) == 1 + len(table.rows)
        assert {len(re.split(r"(?<!\\)&", row)) for row in rows} == {columns}
    everything = "".join(map(formats.latex, found))
    assert r"$\mathbf{" not in everything
    row = found[0].rows[0]
    best = replace(found[0], rows=(replace(row, cells=(replace(row.cells[0], best=True), *row.cells[1:])), *found[0].rows[1:]))
    assert formats.latex(best).count(r"$\mathbf{") == 1
    assert r"$\lambda$=" in everything


def test_symbols_with_an_index_are_mathematics():
    assert formats.tex("λ_f=0.1 & 5 %") == r"$\lambda_{f}$=0.1 \& 5 \%"


def test_csv_has_every_number_of_every_cell(found):
    rows = list(csv.DictReader(io.StringIO(formats.csv(*found), newline=""), strict=True))
    cells = [(table, row, cell) for table in found for row in table.rows for cell in row.cells]
    assert len(rows) == len(cells) > 100
    for line, (table, row, cell) in zip(rows, cells, strict=True):
        assert (line["experiment"], line["method"], line["title"]) == (table.experiment, row.line, row.title)
        assert (line["mean"] and float(line["mean"])) == ("" if cell.mean is None else cell.mean)
        assert [float(pair.split(":")[1]) for pair in line["values"].split()] == list(cell.values.values())
        assert (int(line["seeds"]), int(line["expected"]), int(line["pairs"])) == (cell.done, cell.expected, cell.pairs)
        assert line["best"] == str(cell.best).lower()
        assert line["note"] == cell.note
        if cell.interval:
            assert (float(line["low"]), float(line["high"])) == cell.interval
        if cell.difference is not None:
            assert (float(line["published"]), float(line["difference"])) == (cell.published.mean, cell.difference)
    assert any(HOSTILE in line["column"] for line in rows)
    assert any(line["title"].startswith(SCRIPT) for line in rows)
