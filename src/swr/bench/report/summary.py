"""The report as Markdown: every table, what makes each of its cells again and how long that took, and the charts.

A page of one's own keeps what stands around the two marks, so that results and the words about them live in one file.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from swr.bench.estimate import duration
from swr.bench.paper import EXPERIMENTS
from swr.bench.report import formats
from swr.bench.report.charts import charts
from swr.bench.report.page import save, title
from swr.bench.report.results import Results
from swr.bench.report.tables import Table, tables
from swr.errors import SWRError

BEGIN, END = "<!-- swr report: begin -->", "<!-- swr report: end -->"
"""what stands between them is the report's"""


class MarksError(SWRError):
    """A file is there that does not say where the report goes."""


def write(results: Results, path: Path, figures: str | None = None) -> None:
    """Write a new file, or renew what stands between the marks of one that is there.

    figures: the folder of the charts as PNG, seen from the file; None leaves them out.
    """
    before, after = around(path)
    save(f"{before}{BEGIN}\n\n{render(results, figures)}\n{END}{after}", path)


def around(path: Path) -> tuple[str, str]:
    """What stands before and behind the marks of a file; of one that is not there, what makes a whole file of the report."""
    if not path.exists():
        return "", "\n"
    try:
        before, begin, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    except UnicodeDecodeError as error:
        raise MarksError(f"{path} is there and is no text: name another file") from error
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise MarksError(f"{path} is there and does not say where the report goes: add the lines {BEGIN} and {END} to it")
    return before, after


def render(results: Results, figures: str | None = None) -> str:
    """The report, a section for each experiment.

    >>> render(Results([], {}))
    ''
    """
    made, drawn = tables(results.records, results.epochs), charts(results) if figures is not None else []
    names = dict.fromkeys([*(table.experiment for table in made), *(chart.experiment for chart in drawn)])
    parts = []
    told: set[tuple[str, ...]] = set()
    for name in names:
        parts.append(f"## {formats.plain(title(name))}\n")
        parts += [f"{formats.plain(EXPERIMENTS[name].about)}.\n"] if name in EXPERIMENTS else []
        for table in made:
            if table.experiment == name:
                parts.append(formats.markdown(table))
                parts += [f"{rows}\n"] if (rows := "\n".join(_cells(table, told))) else []
        for chart in drawn:
            if chart.experiment == name:
                parts.append(f"![{formats.plain(chart.title)}]({figures}/{chart.id}.png)\n\n*{formats.plain(chart.caption)}*\n")
    return "\n".join(parts)


def _cells(table: Table, told: set[tuple[str, ...]]) -> Iterator[str]:
    """A row for every cell that was run: how long, and what makes it again; nothing if all of them were told before.

    told: the runs of the cells so far.
    """
    done = {cell.runs for row in table.rows for cell in row.cells if cell.done}
    if done <= told:
        return
    told |= done
    yield "| cell | time of one core | command |"
    yield "| :-- | --: | :-- |"
    for row in table.rows:
        for column, cell in zip(table.columns, row.cells, strict=True):
            if cell.done:
                time = "" if cell.seconds is None else f"{cell.done} x {duration(cell.seconds / cell.done)}"
                safe = cell.command and not re.search(r"[`|\r\n]", cell.command)  # else the page alone shows it
                command = f"`{cell.command}`" if safe else ""
                yield f"| {formats.plain(row.title)}, {formats.plain(column)} | {time} | {command} |"
