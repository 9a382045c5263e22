"""The picture of the README: accuracy over a stream of tasks with SWR, without it, and with a fresh network for every task.

python tools/stream_chart.py        writes docs/charts/stream-light.svg and stream-dark.svg, from results/growth
"""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path
from statistics import fmean

import altair as alt
import vl_convert

from swr.bench.report.charts.palette import style, theme

ROOT = Path(__file__).parents[1]
SOURCE, CHARTS = ROOT / "results" / "growth", ROOT / "docs" / "charts"
SEEDS = range(200, 210)
WINDOW = 5
"""tasks that a point of a line is the mean of"""

LINES: dict[tuple[str, str], tuple[str, str]] = {
    ("full-reset", ""): ("fresh network for every task", "cold"),
    ("swr-budget", "1.5"): ("with SWR, the default", "swr"),
    ("vanilla", ""): ("without SWR", "vanilla"),
}
"""method and growth of the runs: the label of their line, and whose colour it has"""


def accuracies(source: Path = SOURCE) -> dict[str, list[float]]:
    """The mean online accuracy of every task over the seeds, by label.

    Online accuracy is measured on each batch before its update. On this stream a task is one epoch.

    Args:
        source: A folder written by ``swr export``.
    """
    with (source / "runs.csv").open(encoding="utf-8", newline="") as file:
        stream = [row for row in csv.DictReader(file) if row["experiment"] == "permuted-pixels" and int(row["seed"]) in SEEDS]
    labels = {row["id"]: line[0] for row in stream if (line := LINES.get((row["method"], row["hyper.growth"])))}
    counts = {label: list(labels.values()).count(label) for label, _ in LINES.values()}
    if set(counts.values()) != {len(SEEDS)}:
        raise SystemExit(f"{source} must have {len(SEEDS)} runs of each line; it has {counts}. Run tools/growth_study.py.")
    tasks: dict[str, dict[int, list[float]]] = {label: defaultdict(list) for label, _ in LINES.values()}
    with (source / "metrics.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["run"] in labels:
                tasks[labels[row["run"]]][int(row["stage"])].append(float(row["train_accuracy"]))
    return {label: [fmean(found[task]) for task in sorted(found)] for label, found in tasks.items()}


def chart(lines: dict[str, list[float]], *, dark: bool) -> str:
    """One line each, with its label at the end, as SVG."""
    rows = [
        {"line": label, "task": end, "accuracy": round(fmean(values[end - WINDOW : end]), 5)}
        for label, values in lines.items()
        for end in range(WINDOW, len(values) + 1, WINDOW)
    ]
    styles = [style(name) for _, name in LINES.values()]
    colours = alt.Scale(domain=list(lines), range=[one.dark if dark else one.light for one in styles])
    base = alt.Chart(alt.InlineData(values=rows), width=460, height=230).encode(
        x=alt.X("task:Q", title="task: the pixels of the digits in another order", scale=alt.Scale(nice=False)),
        y=alt.Y("accuracy:Q", title="online accuracy", axis=alt.Axis(format="%"), scale=alt.Scale(domain=[0.4, 0.85])),
        color=alt.Color("line:N", scale=colours, legend=None),
    )
    last = base.transform_filter(f"datum.task == {len(lines['without SWR'])}")
    labels = [
        last.transform_filter(f"datum.line == '{label}'")
        .mark_text(align="left", dx=6, dy=shift, fontSize=12)
        .encode(text="line:N")
        for label, shift in zip(lines, (-7, 9, 0), strict=True)
    ]
    drawn = alt.layer(base.mark_line(strokeWidth=2.5), *labels, padding={"left": 5, "top": 5, "bottom": 5, "right": 40})
    drawn = drawn.configure(**theme(dark=dark))  # the padding: a reader's font may be wider than the one that was measured
    svg: str = vl_convert.vegalite_to_svg(drawn.to_json())
    return svg


def main(folder: Path = CHARTS) -> None:
    """Write both pictures, and print what they show."""
    lines = accuracies()
    for name, dark in (("light", False), ("dark", True)):
        (folder / f"stream-{name}.svg").write_text(chart(lines, dark=dark), encoding="utf-8")
    for label, values in lines.items():
        print(f"{label}: first ten tasks {fmean(values[:10]):.3f}, last ten {fmean(values[-10:]):.3f}, all {fmean(values):.4f}")


if __name__ == "__main__":
    main()
