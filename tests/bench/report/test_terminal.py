"""Tables for a terminal."""

import math

from job_tasks import epoch

from swr.bench import experiments
from swr.bench.experiments import FIRST, LAST
from swr.bench.report import terminal
from swr.bench.store import Provenance, Store


def finished(values: dict[str, tuple[float, float, float]], name: str, column: str, seeds: int = 1) -> list:
    """Records of runs that ended with these: the average, and that of the first and last tenth."""
    store = Store(":memory:")
    runs = experiments.expand(name, columns=[column], methods=list(values), seeds=seeds)
    store.add(runs, Provenance({}, None, "host"))
    for one in runs:
        names = (experiments.find_scenario(name).metric.name, FIRST, LAST)
        measures = dict(zip(names, values[one.method], strict=True))
        store.record(one.identity, [epoch(one.total, one.total, test_accuracy=math.nan, measures=measures)])
        store.finish(one.identity, {})
    return store.runs()


def test_the_table_of_a_stream_tells_what_fell_and_what_held(monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    records = finished({"vanilla": (0.6, 0.7, 0.4), "full-reset": (0.65, 0.65, 0.66)}, "permuted-pixels", "digits-mlp")
    text = terminal.table(records)
    assert "average online accuracy" in text.splitlines()[0]
    assert "first tenth of tasks" in text
    assert "nan" not in text
    assert [line.split()[-3:] for line in text.splitlines()[-2:]] == [
        ["0.6000", "0.7000", "0.4000"],
        ["0.6500", "0.6500", "0.6600"],
    ]
    assert text.count("first tenth") == 1


def test_of_squared_errors_the_smallest_is_the_best():
    records = finished({"vanilla": (1.2, 1.0, 1.4), "swr": (0.8, 0.8, 0.8)}, "bit-flipping", "bits-mlp5", seeds=2)
    [table] = terminal.tables(records)
    assert [row.cells[0].best for row in table.rows] == [False, True]
    assert table.lower
    best, other = terminal.candidates(records, "test")
    assert best.test.mean < other.test.mean
