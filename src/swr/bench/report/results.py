"""Everything a report shows, read from a store once: the runs, and every epoch of each."""

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from swr.bench.running.engines import claim
from swr.bench.store import Record, Store, StoreError
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
        with opened(Path(store)) as one:
            return load(one)
    with store.reading() as db:
        records = store.runs()
        epochs: dict[str, list[Epoch]] = {record.id: [] for record in records}
        for run, *row in db.execute(f"SELECT run, {METRICS} FROM metrics ORDER BY run, epoch"):
            if run in epochs:
                epochs[run].append(epoch_of(tuple(row)))
    return Results([alive(record, store) for record in records], epochs)


@contextmanager
def opened(path: Path, wait: float = 30.0) -> Iterator[Store]:
    """A store to read from, also one that this user cannot write: in place, otherwise, or if it is older, a copy of it."""
    if not path.exists() or _writable(path):
        with Store(path, create=False, wait=wait) as store:
            yield store
        return
    with ExitStack() as stack:
        try:
            store = stack.enter_context(Store(path, wait=wait, read_only=True))
        except StoreError as error:  # SQLite needs files beside it, or the store is older and must be migrated
            folder = Path(stack.enter_context(TemporaryDirectory()))
            try:
                for name in (path.name, f"{path.name}-wal"):
                    with suppress(FileNotFoundError):
                        shutil.copyfile(path.with_name(name), folder / name)
                store = stack.enter_context(Store(folder / path.name, create=False, wait=wait))
            except (OSError, StoreError):
                raise error from None  # what is wrong with the store itself, by its own name
        yield store


def _writable(path: Path) -> bool:
    effective = os.access in os.supports_effective_ids
    return all(os.access(place, os.W_OK, effective_ids=effective) for place in (path, path.parent))


def alive(record: Record, store: Store) -> Record:
    """The same run, but pending if it is marked as running and no process executes it."""
    if record.status == "running" and not claim.held(store.folder / record.id):
        return replace(record, status="pending")
    return record
