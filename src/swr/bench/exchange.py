"""Results from one machine to another: a store as plain files, and stores or such files merged into a store.

A run's id is made from its configuration, so the same run has the same id everywhere. Of two copies a finished one wins
over one that is not, and otherwise ours is kept.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from swr.bench import plain
from swr.bench.config import RunConfig
from swr.bench.plain import ExchangeError, Row
from swr.bench.schema import COLUMNS, METRICS, Status, epoch_of, row_of
from swr.bench.store import Store
from swr.errors import SWRError

__all__ = ["ExchangeError", "Merged", "export", "merge"]


@dataclass
class Merged:
    """What became of the runs of a source."""

    added: int = 0
    completed: int = 0
    """unfinished here, finished there"""
    kept: int = 0
    """known already, and left as they are"""
    foreign: int = 0
    """of a method or an option that this swr does not know, left out"""

    def __str__(self) -> str:
        text = f"{_runs(self.added)} added, {self.completed} completed, {self.kept} known already"
        return text + (f", {self.foreign} of another version of swr left out" if self.foreign else "")


def export(store: Path, folder: Path) -> str:
    """Write a store as CSV files, while it is written to or not; a sentence on what was written.

    folder: is created; files of an earlier export in it are replaced, others are left alone.
    """
    if folder.exists() and not folder.is_dir():
        raise ExchangeError(f"{folder} is a file: name a folder with --output")
    with Store(store, create=False) as opened:
        runs, epochs = plain.write(opened, folder)
    return f"{_runs(runs)} and {epochs} epochs of {store} are in {folder}: {', '.join(plain.FILES)}"


def merge(source: Path, store: Path) -> Merged:
    """Add the runs of a source to a store, all or, if anything is damaged, none.

    source: another store, or a folder that :func:`export` wrote.
    store: is created if need be.
    """
    if not source.exists():
        raise ExchangeError(f"there is nothing at {source}: name a store, or a folder that `swr export` wrote")
    if store.exists() and source.samefile(store):
        raise ExchangeError(f"{source} is the store itself: name another one")
    if source.is_dir():
        runs, epochs = plain.read(source)
        return _merge(runs, lambda run: epochs[run], store)
    if not _is_sqlite(source):
        raise ExchangeError(f"{source} is no store (no SQLite file): name a store, or a folder that `swr export` wrote")
    with Store(source, create=False) as other, other.reading() as db:

        def read(run: str) -> list[Row]:
            rows = db.execute(f"SELECT {METRICS} FROM metrics WHERE run = ? ORDER BY epoch", (run,))
            return [row_of(epoch_of(row)) for row in rows]

        rows = db.execute(f"SELECT {COLUMNS} FROM runs ORDER BY created, id").fetchall()
        return _merge([(f"{source}, run {row[0]}", row) for row in rows], read, store)


def _merge(runs: list[tuple[str, Row]], epochs: Callable[[str], list[Row]], path: Path) -> Merged:
    configs = [_check(where, row) for where, row in runs]  # all of them, before a store is touched or made
    merged = Merged()
    with Store(path) as store, store.writing() as db:
        known = dict(db.execute("SELECT id, status FROM runs").fetchall())
        for (_, row), config in zip(runs, configs, strict=True):
            run, _, status = row[:3]
            if config is None:
                merged.foreign += 1
                continue
            if run in known and (known[run] == "done" or status != "done"):
                merged.kept += 1
                continue
            merged.completed += run in known
            merged.added += run not in known
            known[run] = status
            db.execute("DELETE FROM metrics WHERE run = ?", (run,))
            db.execute(
                f'INSERT OR REPLACE INTO runs (experiment, "column", method, seed, {COLUMNS})'
                f" VALUES (?, ?, ?, ?, {_marks(row)})",
                (config.experiment, config.column, config.method, config.seed, *row),
            )
            rows = epochs(run)
            if rows:
                db.executemany(f"INSERT INTO metrics (run, {METRICS}) VALUES (?, {_marks(rows[0])})", [(run, *r) for r in rows])
    return merged


def _check(where: str, row: Row) -> RunConfig | None:
    """The configuration of a run, if nothing of it is damaged; None when it is another version's."""
    run, text, status, _, versions, _, host, facts, created = row[:9]
    if status not in get_args(Status):
        raise ExchangeError(f"{where}: {status!r} is not the status of a run: export again from an undamaged store")
    try:
        data, origin, found = json.loads(text), json.loads(versions), json.loads(facts or "{}")
        if not (isinstance(data, dict) and isinstance(origin, dict) and isinstance(found, dict)):
            raise TypeError("not a record")
        config = RunConfig.from_dict(data)
    except SWRError:
        return None
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise ExchangeError(f"{where}: the run is damaged ({error}): export again from an undamaged store") from error
    if config.identity != run:
        raise ExchangeError(
            f"{where}: the id {run!r} does not belong to the configuration, which has {config.identity}: "
            "one of them was changed; export again from an undamaged store"
        )
    if host is None or created is None:
        raise ExchangeError(f"{where}: host or created is empty: export again from an undamaged store")
    return config


def _is_sqlite(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(16) == b"SQLite format 3\0"
    except OSError as error:
        raise ExchangeError(f"{path} cannot be read ({error.strerror}): check its permissions") from error


def _marks(values: Row) -> str:
    return ", ".join("?" * len(values))


def _runs(number: int) -> str:
    return f"{number} run" if number == 1 else f"{number} runs"
