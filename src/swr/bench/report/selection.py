"""The best configuration of a method on the tuning seeds, and what a run scored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from swr.bench.experiments import RunConfig
from swr.bench.experiments.study import Point
from swr.bench.report.terminal import candidates
from swr.bench.store import Record, Store
from swr.bench.training.online import final


def finished(store: Store) -> dict[str, Record]:
    """The runs of a store that are done, by identity."""
    return {record.id: record for record in store.runs() if record.status == "done" and record.last is not None}


def ended(store: Store) -> dict[str, Record]:
    """The same with the runs that have failed."""
    return finished(store) | {record.id: record for record in store.runs() if record.status == "failed"}


def failed(configs: Sequence[RunConfig], records: Mapping[str, Record]) -> tuple[Point, ...]:
    """The configurations of which a run has failed."""
    known = [(config.hyper, records.get(config.identity)) for config in configs]
    return tuple(dict.fromkeys(point for point, record in known if record is not None and record.status == "failed"))


def best(grid: Sequence[RunConfig], records: Mapping[str, Record]) -> Point | None:
    """The configuration with the best mean over its seeds; None until every run of the grid has ended, or if all have failed.

    It is chosen by the accuracy on held-out data, or by what a stream is judged by; of equals, the first is taken. One of which
    a run has failed is not chosen.

    Args:
        grid: A method's runs on the tuning seeds.
        records: Runs that have ended, by identity.
    """
    if not all(config.identity in records for config in grid):
        return None
    out = failed(grid, records)
    done = [config for config in grid if config.hyper not in out]
    if not done:
        return None
    label = candidates([records[config.identity] for config in done], "validation")[0].label
    return next(config.hyper for config in done if config.hyper_text == label)


def score(config: RunConfig, records: Mapping[str, Record]) -> float:
    """What a finished run is compared by: held-out accuracy, else the metric of its scenario."""
    last = records[config.identity].last
    assert last is not None
    if config.validation and last.validation_accuracy is not None:
        return last.validation_accuracy
    return final(config, last)
