"""The board as Markdown and for a terminal."""

import pytest
from boards import fill, plausible

from swr.bench.experiments.board import places, rows
from swr.bench.report.leaderboard import board_text
from swr.bench.report.leaderboard.standings import Board, board
from swr.bench.report.marked_text import MarksError
from swr.bench.store import Store

SOME = rows(["l2-init", "fire"])
[PIXELS] = places(["permuted-pixels"], seeds=3)


@pytest.fixture(scope="module")
def found():
    with Store(":memory:") as store:
        return board(fill(store, PIXELS, SOME, plausible), SOME, [PIXELS])


def test_the_table_goes_between_the_marks_and_the_chart_beside_the_page(found, tmp_path):
    path = tmp_path / "leaderboard.md"
    path.write_text(f"# Mine\n\n{board_text.BEGIN}\n{board_text.END}\n\nthe end\n")
    board_text.write(found, {}, path)
    text = path.read_text()
    assert text.startswith("# Mine\n\n<!--")
    assert text.endswith("-->\n\nthe end\n")
    assert "| FIRE | 1 (1) | 1.25 \\[1.25, 1.25\\] |" in text
    assert "`swr run permuted-pixels --columns digits-mlp --methods fire --seeds 300-302`" in text
    assert "](charts/leaderboard.svg)" in text
    assert "FIRE" in (tmp_path / "charts" / "leaderboard.svg").read_text()
    board_text.write(found, {}, path)
    assert path.read_text() == text


def test_every_line_of_a_table_has_as_many_fields(found):
    tables = [part for part in board_text.markdown(found, {}).split("\n\n") if part.startswith("|")]
    assert len(tables) == 2
    for table in tables:
        assert len({line.replace("\\|", "").count("|") for line in table.splitlines()}) == 1


def test_a_page_without_marks_is_refused(tmp_path):
    path = tmp_path / "thesis.md"
    path.write_text("years of work")
    with pytest.raises(MarksError):
        board_text.check(path)


def test_an_empty_board_says_so(tmp_path):
    assert "nothing is finished yet" in board_text.markdown(Board(), {})
    assert "nothing is finished yet" in board_text.terminal(Board(), {})
    board_text.write(Board(), {}, tmp_path / "empty.md")
    assert not (tmp_path / "charts").exists()


def test_a_terminal_shows_the_scores(found, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    lines = board_text.terminal(found, {}).splitlines()
    assert lines[2].startswith("FIRE")
    assert "1.25 [1.25, 1.25]" in lines[2]
