"""The results that come with the project: the page about them says what they say, and every number of it can be made again."""

import itertools
import re
import shlex
import statistics
import sys
from pathlib import Path

import pytest
import tyro

from swr.bench.cli import options, run_commands
from swr.bench.report import summary
from swr.bench.report.results import load
from swr.bench.report.tables import tables
from swr.bench.store import exchange

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/results.md"


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """What `swr import results/paper` makes of the files."""
    store = tmp_path_factory.mktemp("published") / "swr.sqlite"
    merged = exchange.merge(ROOT / "results" / "paper", store)
    assert (merged.foreign, merged.kept) == (0, 0)
    return load(store)


@pytest.fixture(scope="module")
def cells(results):
    return [cell for table in tables(results.records, results.epochs) for row in table.rows for cell in row.cells if cell.runs]


def test_every_run_is_finished_and_tells_where_it_comes_from(results):
    assert {record.status for record in results.records} == {"done"}
    for record in results.records:
        assert len(results.epochs[record.id]) == record.config.total
        assert re.fullmatch("[0-9a-f]{40}", record.provenance.commit), "of a tree without changes"
        assert record.seconds > 0


def test_the_report_writes_the_page(results, tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "examples.readings", raising=False)  # a report does not import what results name
    (tmp_path / "docs").mkdir()
    copy = tmp_path / "docs/results.md"
    copy.write_text(PAGE.read_text())
    summary.write(results, copy, "figures")
    assert copy.read_text() == PAGE.read_text(), "swr report --png docs/figures --markdown docs/results.md"


@pytest.mark.parametrize(("name", "least"), [("docs/results.md", 20), ("README.md", 8)])
def test_every_number_of_the_account_stands_in_the_report(name, least):
    before, _, rest = PAGE.read_text().partition(summary.BEGIN)
    report, _, after = rest.partition(summary.END)
    account = before + after if name == "docs/results.md" else part(ROOT / name, "## What comes out")
    claimed = re.findall(r"(?<![\d.])0?\.\d{3,}", account)
    assert len(claimed) > least
    for number in claimed:
        assert re.search(rf"(?<![\d.])0?{re.escape(number.removeprefix('0'))}(?!\d)", report), f"{number} is in no table"


def test_the_table_of_balancedness_is_that_of_the_stored_runs(tmp_path):
    exchange.merge(ROOT / "results" / "balancedness", tmp_path / "swr.sqlite")
    stored = load(tmp_path / "swr.sqlite")
    ends = {}
    for record in stored.records:
        end = stored.epochs[record.id][-1]
        assert (end.epoch, record.status) == (200, "done")
        ends.setdefault(record.config.method, []).append({**end.measures, "test": end.test_accuracy})
    theory = (ROOT / "docs/theory.md").read_text()
    assert len(ends["vanilla"]) == len(ends["swr"])
    assert f"(`swr run balancedness`, {len(ends['swr'])} seeds, raw runs in" in theory
    for p, q in itertools.product((1, 2), repeat=2):
        means = [statistics.mean(end[f"l{p},{q} over minimum"] for end in ends[method]) for method in ("vanilla", "swr")]
        [row] = [line for line in theory.splitlines() if line.startswith(f"| l_{{{p},{q}}} over its minimum |")]
        assert row.endswith(f" | {means[0]:.2f} | {means[1]:.2f} |")
    accuracies = [statistics.mean(end["test"] for end in ends[method]) for method in ("vanilla", "swr")]
    assert f"| {accuracies[0]:.4f} | {accuracies[1]:.4f} |".replace("0.", ".") in theory


def part(path, heading):
    """What stands under a heading."""
    return path.read_text().partition(f"\n{heading}\n")[2].partition("\n## ")[0]


def test_every_chart_is_there_and_none_is_left_over():
    shown = re.findall(r"\(figures/(.+?\.png)\)", PAGE.read_text())
    assert sorted(path.name for path in (ROOT / "docs/figures").iterdir()) == sorted(shown)


def test_the_command_beside_a_cell_makes_it_and_nothing_else(cells):
    text = PAGE.read_text()
    assert len(cells) > 30
    for cell in cells:
        assert f"| `{cell.command}` |" in text
        parsed = tyro.cli(options.explained(), args=shlex.split(cell.command)[1:], config=(tyro.conf.OmitSubcommandPrefixes,))
        assert {config.identity for config in run_commands.runs_of(parsed)} == set(cell.runs)
