"""The report as one self-contained web page: tables, charts and runs, opened from disk, without a network."""

from __future__ import annotations

import math
import re
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from swr._version import __version__
from swr.bench.experiments import COLD, column_title, run_description
from swr.bench.files import replacing
from swr.bench.report import notes
from swr.bench.report.charts import palette
from swr.bench.report.comparison import pairs
from swr.bench.report.inline import embedded, library, policy
from swr.bench.report.overview import overview
from swr.bench.report.results import Results
from swr.bench.report.sections import sections
from swr.bench.report.tables import tables
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
    made = tables(results.records, results.epochs)
    first = overview(made)
    compared = pairs(first.places) if first else pairs([])
    names = {id(cell): f"cell-{n}" for n, cell in enumerate(cell for table in made for row in table.rows for cell in row.cells)}
    return {
        "settings": embedded({"light": palette.theme(), "dark": palette.theme(dark=True), "colours": palette.darker()}),
        "now": _clock(time.time()),
        "swr": __version__,
        "duration": duration,
        "counts": _counts(results.records),
        "origins": _origins(results.records),
        "overview": first,
        "pairs": embedded(compared) if compared["pairs"] else None,
        "methods": compared["methods"],
        "chosen": _chosen(compared),
        "anchors": lambda cell: names[id(cell)],
        "sections": sections(results, made),
        "footnotes": [note for note in notes.COMMON if any(note in table.notes for table in made)],
        "runs": [_run(record) for record in results.records],
    }


def fill(contents: dict[str, Any], *, version: str = "", problem: str = "") -> str:
    """The page around its contents."""
    scripts = [library(), _script()] if contents["runs"] or version else []
    return template().render(
        contents,
        policy=policy(scripts, watched=bool(version)),
        style=Markup(web_text("page.css")),
        scripts=[Markup(script) for script in scripts],
        version=version,
        problem=problem,
    )


@dataclass(frozen=True)
class Run:
    """A run in the list: what is shown, and the values it is sorted by."""

    record: Record
    status: str
    column: str
    protocol: str
    """what differs from the experiment's: ``raw inputs``"""
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


def _run(record: Record) -> Run:
    last = record.last
    return Run(
        record=record,
        status=STATUSES[record.status],
        column=column_title(record.config.column),
        protocol=run_description.label(record.config),
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


def _chosen(compared: dict[str, Any]) -> dict[str, int]:
    """The two methods that the page compares at first: with most columns in common, and not those of the matrix above."""

    def rank(pair: str) -> tuple[bool, int, int, int]:
        low, high = (int(index) for index in pair.split())
        others = not {"vanilla", COLD} & {compared["lines"][low], compared["lines"][high]}
        return others, len(compared["pairs"][pair]), -low, high

    if not compared["pairs"]:
        return {"first": 0, "second": 0}
    second, first = map(int, max(compared["pairs"], key=rank).split())
    return {"first": first, "second": second}


def _breakable(text: str) -> Markup:
    """A name that may be broken where its parts end."""
    return Markup(re.sub("([:.])", r"\1<wbr>", str(escape(text))))


@cache
def template(name: str = "page.html") -> jinja2.Template:
    """One of the templates of ``web/``."""
    found = jinja2.Environment(
        loader=jinja2.FunctionLoader(web_text),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    found.filters["breakable"] = _breakable
    return found.get_template(name)


@cache
def _script() -> str:
    """Our own script: its parts in one scope."""
    parts = [web_text(name) for name in ("charts.js", "tables.js", "compare.js", "watch.js")]
    return '(() => {\n"use strict";\n' + "\n".join(parts) + "})();\n"


@cache
def web_text(name: str) -> str:
    """The text of a file of ``web/``."""
    return resources.files("swr.bench.report").joinpath("web", name).read_text(encoding="utf-8")
