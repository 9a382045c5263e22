"""The page of the leaderboard says what the stored runs say."""

import re
import shutil
from pathlib import Path

import pytest

from swr.bench.experiments.board import PLACES, places, rows
from swr.bench.report.leaderboard import board_text
from swr.bench.report.leaderboard.costs import costs
from swr.bench.report.leaderboard.standings import board
from swr.bench.report.selection import ended
from swr.bench.store import Store
from swr.bench.store.exchange import merge

ROOT = Path(__file__).parents[1]


def test_the_page_and_its_chart_are_made_again_from_the_stored_runs(tmp_path):
    page = tmp_path / "leaderboard.md"
    shutil.copy(ROOT / "docs" / "leaderboard.md", page)
    merge(ROOT / "results", tmp_path / "board.sqlite")
    with Store(tmp_path / "board.sqlite") as store:
        found = board(ended(store), rows(), places(list(PLACES)))
    board_text.write(found, costs(), page)
    assert page.read_text() == (ROOT / "docs" / "leaderboard.md").read_text()
    assert (tmp_path / board_text.CHART).exists() == (ROOT / "docs" / board_text.CHART).exists()
    if (tmp_path / board_text.CHART).exists():
        assert (tmp_path / board_text.CHART).read_text() == (ROOT / "docs" / board_text.CHART).read_text()


@pytest.mark.parametrize(
    ("name", "heading"), [("docs/choosing.md", "## What to use when\n"), ("README.md", "## When it helps, and when not\n")]
)
def test_every_share_of_the_advice_stands_in_the_table(name, heading):
    table = (ROOT / "docs" / "leaderboard.md").read_text().partition(board_text.BEGIN)[2].partition("<details>")[0]
    advice = (ROOT / name).read_text().partition(heading)[2].partition("\n## ")[0]
    claimed = re.findall(r"(?<![\d.])\d\.\d\d(?!\d)", advice)
    assert len(claimed) > 8
    for share in claimed:
        assert re.search(rf"(?<![\d.]){re.escape(share)}(?!\d)", table), f"{share} is in no cell"
