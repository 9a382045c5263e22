"""The board as Markdown, between the marks of a page, and for a terminal."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from swr.bench.files import replacing
from swr.bench.report.formats import escaped
from swr.bench.report.leaderboard import board_tables
from swr.bench.report.leaderboard.board_tables import Text
from swr.bench.report.leaderboard.costs import Cost
from swr.bench.report.leaderboard.standings import Board
from swr.bench.report.marked_text import outside, put_between
from swr.bench.words import aligned

BEGIN, END = "<!-- leaderboard: begin -->", "<!-- leaderboard: end -->"
CHART = "charts/leaderboard.svg"
"""beside the page"""


def check(path: Path) -> None:
    """Refuse a file that does not say where the board goes."""
    outside(path, BEGIN, END)


def write(board: Board, costs: Mapping[str, Cost], path: Path) -> None:
    """Put the board between the marks of a page, and its chart beside it."""
    from swr.bench.report.leaderboard import board_chart  # here, since charts take a second to import

    drawn = board_chart.svg(board)
    if drawn:
        file = path.parent / CHART
        file.parent.mkdir(exist_ok=True)
        with replacing(file, mode="w") as [output]:
            output.write(drawn)
    put_between(path, BEGIN, END, markdown(board, costs, chart=bool(drawn)))


def markdown(board: Board, costs: Mapping[str, Cost], *, chart: bool = False) -> str:
    """All of it as text."""
    if not board.columns:
        return f"({board_tables.EMPTY}.)\n"
    parts = [_pipes(board_tables.scores(board, costs)), "\n".join(f"- {escaped(note)}" for note in board_tables.notes(board))]
    parts += [f"![Mean share of every ranked row, with its interval]({CHART})"] if chart else []
    details = _pipes(board_tables.accuracies(board))
    parts.append(f"<details><summary>Accuracies, and the command that repeats each cell</summary>\n\n{details}\n\n</details>")
    return "\n\n".join(parts) + "\n"


def terminal(board: Board, costs: Mapping[str, Cost]) -> str:
    """The table of scores, and the notes."""
    if not board.columns:
        return board_tables.EMPTY
    table = board_tables.scores(board, costs)
    starts = range(1, len(table.head))
    return "\n".join([aligned([table.head, *table.rows], starts=list(starts)), "", *board_tables.notes(board)])


def _pipes(table: Text) -> str:
    lines = [table.head, ["---"] * len(table.head), *table.rows]
    return "\n".join("| " + " | ".join(_field(field) for field in line) + " |" for line in lines)


def _field(text: str) -> str:
    if text.startswith("swr run ") and not re.search(r"[`|\r\n]", text):
        return f"`{text}`"
    return text if text == "---" else escaped(text)
