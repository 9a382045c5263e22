"""The board as a web page."""

from boards import fill, plausible

from swr.bench.experiments.board import places, rows
from swr.bench.report.leaderboard.board_chart import svg
from swr.bench.report.leaderboard.board_page import render, write
from swr.bench.report.leaderboard.standings import Board, board
from swr.bench.store import Store

SOME = rows(["l2-init", "fire"])
[PIXELS] = places(["permuted-pixels"], seeds=3)


def made():
    with Store(":memory:") as store:
        return board(fill(store, PIXELS, SOME, plausible), SOME, [PIXELS])


def test_the_page_holds_the_board_and_fetches_nothing(tmp_path):
    write(made(), {}, tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert text == render(made(), {}), "the same from the same runs"
    assert "1.25 [1.25, 1.25]" in text
    assert "<code>swr run permuted-pixels --columns digits-mlp --methods fire --seeds 300-302</code>" in text
    assert "<svg" in text
    assert "<script" not in text
    assert "default-src &#39;none&#39;" in text
    assert "http" not in text.replace("http-equiv", "").replace("http://www.w3.org", "")


def test_an_empty_page_says_what_to_do():
    assert "`swr leaderboard` runs it" in render(Board(), {})
    assert svg(Board()) == ""
