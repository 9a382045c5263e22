"""Finished runs of the leaderboard with given values, without training."""

import math
from collections.abc import Callable, Sequence

from job_tasks import epoch
from stores import HERE

from swr.bench.experiments import FIRST, LAST, RunConfig
from swr.bench.experiments.board import Row, references
from swr.bench.experiments.study import Setting
from swr.bench.report.selection import best, finished
from swr.bench.store import Record, Store

Value = Callable[[RunConfig], float]


def add(store: Store, configs: Sequence[RunConfig], value: Value) -> None:
    """Runs that are done; a stream's average is as good as its last tenth, held-out accuracy as the test's."""
    store.add(configs, HERE)
    for one in configs:
        found, online = value(one), one.setting.metric.online
        measures = {one.setting.metric.name: found, FIRST: 0.9, LAST: found} if online else {}
        last = epoch(
            one.total,
            one.total,
            stage=len(one.epochs) - 1,
            test_accuracy=math.nan if online and not one.setting.always_tests else found,
            validation_accuracy=found if one.validation else None,
            measures=measures,
        )
        store.record(one.identity, [last])
        store.finish(one.identity, {})


def fail(store: Store, configs: Sequence[RunConfig]) -> None:
    """Runs that ended with an error, whatever they were before."""
    store.remove([one.identity for one in configs])
    store.add(configs, HERE)
    for one in configs:
        store.fail(one.identity, "ValueError: diverged")


def fill(store: Store, place: Setting, rows: Sequence[Row], value: Value) -> dict[str, Record]:
    """References, grids and reported runs of these rows; the finished runs."""
    for tune in (False, True):
        for configs in references(place, tune=tune).values():
            add(store, configs, value)
    for row in rows:
        grid = row.grid(place)
        add(store, grid, value)
        point = best(grid, finished(store)) if grid else row.points[0]
        assert point is not None
        add(store, row.reported(place, point), value)
    return finished(store)


def plausible(config: RunConfig) -> float:
    """Vanilla 0.4, a fresh network 0.8, others in between by their hyper-parameters; seeds differ by a little."""
    base = {"vanilla": 0.4, "full-reset": 0.8, "fire": 0.9, "l2-init": 0.7, "swr-budget": 0.6}.get(config.method, 0.5)
    if config.cold:
        base = 0.8
    away = sum(abs(math.log10(value / 0.01)) for key, value in config.hyper if key == "coefficient")
    away += sum(abs(value - 1.2) for key, value in config.hyper if key == "growth")
    return base - 0.05 * away + 0.001 * (config.seed % 7)
