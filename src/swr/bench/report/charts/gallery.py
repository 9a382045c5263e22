"""All charts of a report, in the order of its experiments."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from altair.utils.schemapi import debug_mode

from swr.bench.experiments import experiments
from swr.bench.report.charts import curves
from swr.bench.report.charts.marks import Chart
from swr.bench.report.charts.proportionality import EXPERIMENT, proportionality
from swr.bench.report.charts.series import panels
from swr.bench.report.charts.sweeps import sentences, sweeps
from swr.bench.report.results import Results

__all__ = ["Chart", "charts", "remarks"]


def charts(results: Results) -> list[Chart]:
    """Every chart that the runs are enough for.

    >>> charts(Results([], {}))
    []
    """
    found: list[Chart] = []
    with debug_mode(False):  # checking every part against the schema takes most of the time; the tests do that
        for experiment in _experiments(results):
            found += proportionality(results) if experiment == EXPERIMENT else _of(experiment, results)
    taken: dict[str, int] = {}
    unique = []
    for chart in found:
        taken[chart.id] = taken.get(chart.id, 0) + 1
        unique.append(chart if taken[chart.id] == 1 else replace(chart, id=f"{chart.id}-{taken[chart.id]}"))
    return unique


def remarks(results: Results) -> dict[str, list[str]]:
    """What is too little for a chart, as sentences, by experiment."""
    found = {experiment: sentences(results, experiment) for experiment in _experiments(results) if experiment != EXPERIMENT}
    return {experiment: texts for experiment, texts in found.items() if texts}


def _experiments(results: Results) -> list[str]:
    """Those of the runs, the paper's first and in its order."""
    known = list(experiments())
    names = dict.fromkeys(record.config.experiment for record in results.records)
    return sorted(names, key=lambda name: known.index(name) if name in known else len(known))


def _of(experiment: str, results: Results) -> Iterator[Chart]:
    drawn = [panel for panel in panels(results) if panel.experiment == experiment]
    for panel in drawn:
        if (accuracy := curves.accuracy(panel, results)) is not None:
            yield accuracy
        yield from curves.measures(panel, results)
    yield from sweeps(results, experiment)
    for panel in drawn:
        if (norms := curves.norms(panel, results)) is not None:
            yield norms
