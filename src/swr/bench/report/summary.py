"""The report as Markdown: every table, the command that repeats each cell and its time, and the charts.

In an existing file only what stands between two marks is replaced, so that results and the text about them are in one file.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from swr.bench.experiments import experiments, title
from swr.bench.report import formats
from swr.bench.report.charts.gallery import charts, remarks
from swr.bench.report.marked_text import outside, put_between
from swr.bench.report.results import Results
from swr.bench.report.tables import Table, tables
from swr.bench.words import duration

BEGIN, END = "<!-- swr report: begin -->", "<!-- swr report: end -->"
"""what stands between them is replaced"""


def write(results: Results, path: Path, figures: str | None = None) -> None:
    """Write a new file, or replace what stands between the marks of an existing one.

    Args:
        figures: The folder of the charts as PNG, relative to the file; None leaves them out.
    """
    put_between(path, BEGIN, END, render(results, figures))


def around(path: Path) -> tuple[str, str]:
    """What stands before and after the report in a file."""
    return outside(path, BEGIN, END)


def render(results: Results, figures: str | None = None) -> str:
    """The report, a section for each experiment.

    >>> render(Results([], {}))
    ''
    """
    made, drawn = tables(results.records, results.epochs), charts(results) if figures is not None else []
    names = dict.fromkeys([*(table.experiment for table in made), *(chart.experiment for chart in drawn)])
    said = remarks(results)
    parts = []
    told: set[tuple[str, ...]] = set()
    known = experiments()
    for name in names:
        parts.append(f"## {formats.escaped(title(name))}\n")
        parts += [f"{formats.escaped(known[name].about)}.\n"] if name in known else []
        for table in made:
            if table.experiment == name:
                parts.append(formats.markdown(table))
                parts += [_fold("Time and command of every cell", rows)] if (rows := "\n".join(_cells(table, told))) else []
        parts += [f"{formats.escaped(text)}\n" for text in said.get(name, ())]
        for chart in drawn:
            if chart.experiment == name:
                parts.append(
                    f"![{formats.escaped(chart.title)}]({figures}/{chart.id}.png)\n\n*{formats.escaped(chart.caption)}*\n"
                )
    return "\n".join(parts)


def _fold(title: str, text: str) -> str:
    """Shown when its title is clicked."""
    return f"<details>\n<summary>{title}</summary>\n\n{text}\n\n</details>\n"


def _cells(table: Table, told: set[tuple[str, ...]]) -> Iterator[str]:
    """A row for every cell that was run: its time and its command; nothing if all of them were listed before.

    Args:
        told: The runs of the cells that were listed, which grows.
    """
    done = {cell.runs for row in table.rows for cell in row.cells if cell.done}
    if done <= told:
        return
    told |= done
    yield "| cell | wall time | command |"
    yield "| :-- | --: | :-- |"
    for row in table.rows:
        for column, cell in zip(table.columns, row.cells, strict=True):
            if cell.done:
                time = "" if cell.seconds is None else f"{cell.done} x {duration(cell.seconds / cell.done)}"
                safe = cell.command and not re.search(r"[`|\r\n]", cell.command)  # otherwise only the page shows it
                command = f"`{cell.command}`" if safe else ""
                yield f"| {formats.escaped(row.title)}, {formats.escaped(column)} | {time} | {command} |"
