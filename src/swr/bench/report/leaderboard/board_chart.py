"""The chart of the board: every ranked row's mean share with its interval, between vanilla at 0 and the fresh network at 1."""

from __future__ import annotations

import altair as alt
import vl_convert

from swr.bench.report.charts.palette import theme
from swr.bench.report.leaderboard.standings import Board


def svg(board: Board) -> str:
    """The chart as text; empty if no row is ranked."""
    rows = [
        {
            "method": one.row.title,
            "mean": one.mean,
            "low": one.interval[0],
            "high": one.interval[1],
            "ours": _ours(one.row.method),
        }
        for one in board.standings
        if one.mean is not None and one.interval is not None
    ]
    if not rows:
        return ""
    titles = [str(row["method"]) for row in rows]
    base = alt.Chart(width=460, height={"step": 15}).encode(
        y=alt.Y("method:N", sort=titles, title=None, axis=alt.Axis(labelLimit=260)),
        color=alt.Color("ours:N", scale=alt.Scale(domain=[True, False], range=["#c45000", "#59616c"]), legend=None),
    )
    axis = alt.X("low:Q", title="share of the lost plasticity that is recovered: vanilla 0, fresh network 1")
    bars = base.mark_rule(size=2).encode(x=axis, x2="high:Q")
    points = base.mark_point(filled=True, size=45, opacity=1).encode(x="mean:Q")
    lines = (
        alt.Chart(alt.InlineData(values=[{"at": 0}, {"at": 1}])).mark_rule(strokeDash=[4, 3], color="#9a9a9a").encode(x="at:Q")
    )
    chart = (
        alt.layer(lines, bars, points, data=alt.InlineData(values=rows))
        .properties(padding={"left": 24, "right": 12, "top": 6, "bottom": 6})
        .configure(**theme())
    )
    text: str = vl_convert.vegalite_to_svg(chart.to_json())
    return text


def _ours(method: str) -> bool:
    return any(part.startswith("swr") for part in method.split("+"))
