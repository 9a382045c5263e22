"""The board as one self-contained web page, without scripts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from markupsafe import Markup

from swr.bench.report import page
from swr.bench.report.inline import policy
from swr.bench.report.leaderboard import board_chart, board_tables
from swr.bench.report.leaderboard.costs import Cost
from swr.bench.report.leaderboard.standings import Board


def write(board: Board, costs: Mapping[str, Cost], path: Path) -> None:
    """Write the page, atomically."""
    page.save(render(board, costs), path)


def render(board: Board, costs: Mapping[str, Cost]) -> str:
    """The page as text: the same for the same runs, wherever and whenever it is made.

    >>> "nothing is finished yet" in render(Board(), {})
    True
    """
    return page.template("leaderboard.html").render(
        policy=policy([], watched=False),
        style=Markup(page.web_text("page.css")),
        board=board,
        scores=board_tables.scores(board, costs),
        accuracies=board_tables.accuracies(board),
        notes=board_tables.notes(board) if board.columns else [],
        empty=board_tables.EMPTY,
        chart=Markup(board_chart.svg(board)),
    )
