"""The report as one self-contained web page: tables, charts and runs, opened from disk, without a network."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from swr._version import __version__
from swr.bench.experiments import column_title, experiments, title
from swr.bench.files import replacing
from swr.bench.report import formats
from swr.bench.report.charts import palette
from swr.bench.report.charts.gallery import Chart, charts
from swr.bench.report.charts.marks import slug
from swr.bench.report.inline import embedded, library, packed, policy
from swr.bench.report.results import Results
from swr.bench.report.tables import Table, tables
from swr.bench.store import Record
from swr.bench.words import duration

STATUSES = {"done": "done", "running": "running", "pending": "waiting", "failed": "failed"}
"""what a run's status is called on the page"""


def write(results: Results, path: Path) -> None:
    """Write the page, atomically."""
    save(render(results), path)


def save(text: str, path: Path) -> None:
    """Write text to a file, atomically."""
    with replacing(path, mode="w") as [file]:
        file.write(text)


def render(results: Results, *, version: str = "", problem: str = "") -> str:
    """The page as text.

    >>> "No runs yet" in render(Results([], {}))
    True

    Args:
        version: Of a page that is being watched; it asks its server for the newest and reloads itself.
        problem: A sentence to show at the top.
    """
    return fill(contents(results), version=version, problem=problem)


def contents(results: Results) -> dict[str, Any]:
    """Everything that the page shows of these results; this is the slow part."""
    return {
        "settings": embedded({"light": palette.theme(), "dark": palette.theme(dark=True), "colours": palette.darker()}),
        "now": _clock(time.time()),
        "swr": __version__,
        "duration": duration,
        "counts": _counts(results.records),
        "origins": _origins(results.records),
        "sections": _sections(results),
        "runs": [_run(record) for record in results.records],
    }


def fill(contents: dict[str, Any], *, version: str = "", problem: str = "") -> str:
    """The page around its contents."""
    scripts = [library(), _file("page.js")] if contents["runs"] or version else []
    return _template().render(
        contents,
        policy=policy(scripts, watched=bool(version)),
        style=Markup(_file("page.css")),
        scripts=[Markup(script) for script in scripts],
        version=version,
        problem=problem,
    )


@dataclass(frozen=True)
class Section:
    """An experiment on the page."""

    id: str
    title: str
    about: str
    tables: list[tuple[Table, Markup]]
    """each with its texts to copy"""
    charts: list[tuple[Chart, Markup]]
    """each with its specification"""


@dataclass(frozen=True)
class Run:
    """A run in the list: what is shown, and the values it is sorted by."""

    record: Record
    status: str
    column: str
    method: str
    hyper: str
    epochs: str
    accuracy: float | None
    time: str
    when: str
    problem: str
    """the line of its error that names the exception"""
    details: str
    """its whole configuration, a line for each field"""


def _sections(results: Results) -> list[Section]:
    made, drawn, known = tables(results.records, results.epochs), charts(results), experiments()
    names = dict.fromkeys([*(table.experiment for table in made), *(chart.experiment for chart in drawn)])
    return [
        Section(
            id=f"{slug(name)}-{index}" if slug(name) in [slug(other) for other in list(names)[:index]] else slug(name),
            title=title(name),
            about=known[name].about if name in known else "",
            tables=[(table, embedded(_copies(table))) for table in made if table.experiment == name],
            charts=[(chart, embedded(_spec(chart))) for chart in drawn if chart.experiment == name],
        )
        for index, name in enumerate(names)
    ]


def _copies(table: Table) -> dict[str, str]:
    return {"Markdown": formats.markdown(table), "LaTeX": formats.latex(table), "CSV": formats.csv(table)}


def _spec(chart: Chart) -> dict[str, Any]:
    spec = chart.spec()
    return {**spec, "datasets": {name: packed(rows) for name, rows in spec["datasets"].items()}}


def _run(record: Record) -> Run:
    last = record.last
    return Run(
        record=record,
        status=STATUSES[record.status],
        column=column_title(record.config.column),
        method=record.config.title,
        hyper=record.config.hyper_text,
        epochs=f"{last.epoch if last else 0}/{record.config.total}",
        accuracy=None if last is None or math.isnan(last.test_accuracy) else last.test_accuracy,
        time="" if record.seconds is None else duration(record.seconds),
        when=_clock(record.finished or record.started or record.created),
        problem=_problem(record.error or ""),
        details="\n".join(f"{name}: {value}" for name, value in record.config.to_dict().items()),
    )


def _problem(error: str) -> str:
    """The first line after the calls of a traceback; a message may have more of them."""
    last = error.rpartition("Traceback (most recent call last):\n")[2]
    return next((line for line in last.splitlines() if line.strip() and not line.startswith(" ")), "")


def _counts(records: Iterable[Record]) -> dict[str, int]:
    found = Counter(STATUSES[record.status] for record in records)
    return {status: found[status] for status in STATUSES.values()}


def _origins(records: Sequence[Record]) -> dict[str, list[str]]:
    """What the runs come from: versions, commits, machines; every one that occurs."""
    found: dict[str, dict[str, None]] = {name: {} for name in ("swr", "commit", "torch", "python", "machine", "device")}
    for record in records:
        source = record.provenance
        for name, value in (*source.versions.items(), ("commit", (source.commit or "")[:12]), ("machine", source.host)):
            if value:
                found.setdefault(name, {})[value] = None
    return {name: list(values) for name, values in found.items() if values}


def _clock(moment: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(moment))


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined)
    return environment.from_string(_file("template.html"))


@cache
def _file(name: str) -> str:
    return resources.files("swr.bench.report").joinpath(name).read_text(encoding="utf-8")
