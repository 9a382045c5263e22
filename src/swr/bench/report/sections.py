"""What the page shows of each experiment: charts and values at once, everything else in folds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from swr.bench.experiments import experiments, title
from swr.bench.report import formats, notes
from swr.bench.report.charts.gallery import Chart, charts, remarks
from swr.bench.report.charts.marks import slug
from swr.bench.report.inline import embedded, packed
from swr.bench.report.overview import places
from swr.bench.report.results import Results
from swr.bench.report.tables import Table


@dataclass(frozen=True)
class Shown:
    """A table on the page."""

    id: str
    table: Table
    title: str
    notes: list[str]
    """of this table alone; what is common to several stands on the page once"""
    copies: Markup
    """its texts to copy"""


Drawn = tuple[Chart, Markup]
"""a chart with its specification"""


@dataclass(frozen=True)
class Fold:
    """What is shown when it is asked for."""

    title: str
    tables: list[Shown] = field(default_factory=list)
    charts: list[Drawn] = field(default_factory=list)

    @property
    def id(self) -> str:
        """Its name on the page, also when more runs have been added."""
        return slug(self.title)


@dataclass(frozen=True)
class Section:
    """An experiment on the page."""

    id: str
    title: str
    about: str
    charts: list[Drawn]
    tables: list[Shown]
    remarks: list[str]
    """sentences in place of charts"""
    folds: list[Fold]


def sections(results: Results, made: Sequence[Table]) -> list[Section]:
    """Every experiment, those of the paper first.

    Args:
        made: The tables of these results.
    """
    drawn, said, known = charts(results), remarks(results), experiments()
    main = {(one.experiment, one.column, one.label) for one in places(made)}
    names = list(dict.fromkeys([*(table.experiment for table in made), *(chart.experiment for chart in drawn)]))
    found = []
    for index, name in enumerate(names):
        about = known[name].about if name in known else ""
        mine = [table for table in made if table.experiment == name]
        own = [chart for chart in drawn if chart.experiment == name]
        labels = {label for experiment, _, label in main if experiment == name}
        first = [chart for chart in own if chart.kind == "sweep" or (name, chart.column, chart.label) in main]
        at_once = [table for table in mine if table.kind == "methods" and table.label in labels] or mine[:1]
        taken = slug(name) in map(slug, names[:index])
        found.append(
            Section(
                id=f"{slug(name)}-{index}" if taken else slug(name),
                title=title(name),
                about=about,
                charts=[_drawn(chart) for chart in first if chart.kind != "norms"],
                tables=[_shown(table, about) for table in at_once],
                remarks=said.get(name, []),
                folds=list(_folds(mine, own, at_once, first, about)),
            )
        )
    return found


def _folds(
    tables: Sequence[Table], charts: Sequence[Chart], at_once: Sequence[Table], first: Sequence[Chart], about: str
) -> Iterator[Fold]:
    """Other measures, other hyper-parameters, norms, and each other protocol."""
    labels = {table.label for table in at_once}
    rest = [table for table in tables if table not in at_once]
    near = [table for table in rest if table.label in labels]
    if measures := [table for table in near if table.kind == "measure"]:
        what = dict.fromkeys(table.measure for table in measures)
        yield Fold(_upper("; ".join(what)), [_shown(table, about) for table in measures])
    grids = [table for table in rest if table.kind == "grid" and (table in near or table.title.endswith(" held out)"))]
    if grids:
        yield Fold("Other hyper-parameters", [_shown(table, about) for table in grids])
    if norms := [chart for chart in first if chart.kind == "norms"]:
        yield Fold("Weight norms of every layer", charts=[_drawn(chart) for chart in norms])
    others = [chart for chart in charts if chart not in first]
    left = [table for table in rest if table not in near and table not in grids]
    for label in dict.fromkeys([*(table.label for table in left), *(chart.label for chart in others)]):
        within = [_drawn(chart) for chart in others if chart.label == label]
        yield Fold(_upper(label or "further"), [_shown(table, about) for table in left if table.label == label], within)


def _shown(table: Table, about: str) -> Shown:
    rest = table.title.removeprefix(table.experiment).lstrip(", ")
    named = rest != "" and not rest.startswith("(")
    heading = rest if named else f"{table.measure} {rest}".strip()
    if named and table.measure not in table.title:
        heading = f"{heading}: {table.measure}"
    own = [note for note in table.notes if note not in notes.COMMON and note != f"Protocol: {about}."]
    return Shown(slug(table.title), table, heading, own, embedded(_copies(table)))


def _copies(table: Table) -> dict[str, str]:
    return {"Markdown": formats.markdown(table), "LaTeX": formats.latex(table), "CSV": formats.csv(table)}


def _drawn(chart: Chart) -> Drawn:
    spec: dict[str, Any] = chart.spec()
    return chart, embedded({**spec, "datasets": {name: packed(rows) for name, rows in spec["datasets"].items()}})


def _upper(text: str) -> str:
    return text if text[1:2] == "_" else text[:1].upper() + text[1:]
