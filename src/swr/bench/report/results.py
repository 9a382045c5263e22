"""Everything a report shows, read from a store once: the runs, and every epoch of each."""

import os
from dataclasses import dataclass, replace

from swr.bench.engines import claim
from swr.bench.schema import METRICS, epoch_of
from swr.bench.store import Record, Store
from swr.bench.training import Epoch


@dataclass(frozen=True)
class Results:
    """The runs of a store in the order they were added, as they were at one moment."""

    records: list[Record]
    """a run whose process died is not ``running`` but ``pending``, as one that was stopped"""
    epochs: dict[str, list[Epoch]]
    """of every run by its id, in order; empty for a run that has not finished one"""


def load(store: str | os.PathLike[str] | Store) -> Results:
    """Read a store, while it is written to or not, in one pass over its metrics.

    >>> with Store(":memory:") as store:
    ...     load(store)
    Results(records=[], epochs={})

    store: an open one, or the path of one that exists.
    """
    if not isinstance(store, Store):
        with Store(store, create=False) as opened:
            return load(opened)
    with store.reading() as db:
        records = store.runs()
        epochs: dict[str, list[Epoch]] = {record.id: [] for record in records}
        for run, *row in db.execute(f"SELECT run, {METRICS} FROM metrics ORDER BY run, epoch"):
            if run in epochs:
                epochs[run].append(epoch_of(tuple(row)))
    return Results([alive(record, store) for record in records], epochs)


def alive(record: Record, store: Store) -> Record:
    """The same run, but pending if it is marked as running and no process has it."""
    if record.status == "running" and not claim.held(store.folder / record.id):
        return replace(record, status="pending")
    return record
