"""The page of the leaderboard says what the stored runs say."""

import re
import shutil
from pathlib import Path

import pytest

from swr.bench.experiments.board import PLACES, places, references, rows
from swr.bench.report.leaderboard import board_text
from swr.bench.report.leaderboard.costs import costs
from swr.bench.report.leaderboard.shares import share
from swr.bench.report.leaderboard.standings import board, value
from swr.bench.report.selection import best, ended, finished
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


def test_the_table_on_the_optimizers_state_says_what_the_stored_runs_say(tmp_path):
    for folder in ("leaderboard", "optimizer-state"):
        merge(ROOT / "results" / folder, tmp_path / "board.sqlite")
    with Store(tmp_path / "board.sqlite") as store:
        records = finished(store)
    page = (ROOT / "docs" / "leaderboard.md").read_text()
    later = {place.name: best(rows(["llf"])[0].grid(place), records) for place in places()}
    own = "examples.optimizer_state:"
    assert set(later.values()) == {(("first", 1),), (("first", 2),)}
    lines = {
        "nothing": ("vanilla", f"{own}Moments", f"{own}Restart"),
        "the head": ("head-reset", "rifle", f"{own}HeadRestart"),
        "later layers (LLF)": (None, "llf", f"{own}LaterRestart"),
        "all weights, made orthogonal (FIRE)": (None, "fire", f"{own}FireRestart"),
        "all weights": (None, f"{own}FullMoments", "full-reset"),
    }
    for title, methods in lines.items():
        cells = []
        for method in methods:
            shares = []
            for place in places() if method else ():
                point = later[place.name] if method in ("llf", f"{own}LaterRestart") else ()
                if method == f"{own}LaterRestart" and point == (("first", 1),):
                    point = ()  # its default
                values = {seed: value(place.config(method, point, seed), records) for seed in place.reported}
                known = [{config.seed: value(config, records) for config in runs} for runs in references(place).values()]
                shares.append(share(values, *known))
            cells.append(f"{', '.join(f'{one:.2f}' for one in shares)}; mean {sum(shares) / 3:.2f}" if shares else "")
        assert f"| {title} | {' | '.join(cells)} |" in page


@pytest.mark.parametrize(
    ("name", "heading"), [("docs/choosing.md", "## What to use when\n"), ("README.md", "## When it helps, and when not\n")]
)
def test_every_share_of_the_advice_stands_in_the_table(name, heading):
    page = (ROOT / "docs" / "leaderboard.md").read_text()
    table = page.partition(board_text.BEGIN)[2].partition("<details>")[0]
    table += page.partition("## What the optimizer forgets\n")[2].partition("\n## ")[0]
    advice = (ROOT / name).read_text().partition(heading)[2].partition("\n## ")[0]
    claimed = re.findall(r"(?<![\d.])\d\.\d\d(?!\d)|[+-]0\.\d{4}", advice)
    assert len(claimed) > 8
    for one in claimed:
        assert re.search(rf"(?<![\d.]){re.escape(one)}(?!\d)", table), f"{one} is in no cell"
