"""Everything a report shows, read from a store once: the runs, and every epoch of each."""

import os
from dataclasses import dataclass, replace

from swr.bench.running.engines import claim
from swr.bench.store import Record, Store
from swr.bench.store.schema import METRICS, epoch_of
from swr.bench.training import Epoch


@dataclass(frozen=True)
class Results:
    """A consistent snapshot of a store: its runs in the order they were added."""

    records: list[Record]
    """a run whose process died is not ``running`` but ``pending``, as one that was stopped"""
    epochs: dict[str, list[Epoch]]
    """of every run by its id, in order; empty for a run that has not finished one"""


def load(store: str | os.PathLike[str] | Store) -> Results:
    """Read a store in one pass over its metrics, also while runs are being written to it.

    >>> with Store(":memory:") as store:
    ...     load(store)
    Results(records=[], epochs={})

    Args:
        store: An open one, or the path of one that exists.
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
    """The same run, but pending if it is marked as running and no process executes it."""
    if record.status == "running" and not claim.held(store.folder / record.id):
        return replace(record, status="pending")
    return record
