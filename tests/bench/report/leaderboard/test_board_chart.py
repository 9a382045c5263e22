"""The chart of the board."""

import re

import pytest
from boards import fill, plausible

from swr.bench.experiments.board import places, rows
from swr.bench.report.leaderboard.board_chart import svg
from swr.bench.report.leaderboard.standings import Board, board
from swr.bench.store import Store

SOME = rows(["l2-init", "swr-budget", "swr-budget+l2-init", "fire"])
[PIXELS] = places(["permuted-pixels"], seeds=3)


@pytest.fixture(scope="module")
def chart():
    with Store(":memory:") as store:
        return svg(board(fill(store, PIXELS, SOME, plausible), SOME, [PIXELS]))


def test_every_ranked_row_has_a_point_and_an_interval_in_its_colour(chart):
    points = re.findall(r'aria-roledescription="point"[^>]*', chart)
    assert sorted(re.findall(r'fill="(#\w+)"', " ".join(points))) == ["#59616c"] * 2 + ["#c45000"] * 3
    intervals = re.findall(r'<line [^>]*stroke="(#59616c|#c45000)"', chart)
    assert sorted(intervals) == ["#59616c"] * 2 + ["#c45000"] * 3


def test_every_name_is_there_in_the_order_of_the_ranks(chart):
    names = [row.title for row in SOME]
    found = [text for text in re.findall(r"<text[^>]*>([^<]*)</text>", chart) if text in names]
    assert sorted(found) == sorted(names)
    assert found[0] == "FIRE"


def test_without_a_ranked_row_there_is_no_chart():
    assert svg(Board()) == ""
