"""Move results from one machine to another: export a store as CSV files, merge stores or such files into a store.

A run's id is computed from its configuration, so the same run has the same id everywhere. Of two copies a finished one is
preferred to an unfinished one, otherwise ours is kept.
"""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from swr.bench.experiments import RunConfig
from swr.bench.store import csv_files
from swr.bench.store.csv_files import Row
from swr.bench.store.database import Store
from swr.bench.store.earlier_export import check_replaceable
from swr.bench.store.run_checks import ExchangeError, Found, check_epochs
from swr.bench.store.schema import COLUMNS, METRICS, Status, epoch_of, row_of
from swr.bench.training import Epoch
from swr.bench.words import plural
from swr.errors import SWRError

__all__ = ["ExchangeError", "Merged", "export", "merge"]

Epochs = Callable[[str], list[Found]]
"""the epochs of a run, by its id"""


@dataclass
class Merged:
    """What became of the runs of a source."""

    added: int = 0
    completed: int = 0
    """unfinished here, finished there"""
    kept: int = 0
    """known already, and not changed"""
    foreign: int = 0
    """of a method or an option that this version does not know, left out"""

    def __str__(self) -> str:
        text = f"{plural(self.added, 'run')} added, {self.completed} completed, {self.kept} known already"
        return text + (f", {self.foreign} of another version of swr left out" if self.foreign else "")


def export(store: Path, folder: Path, *, unfinished: bool = False, last: bool = False) -> str:
    """Write a store as CSV files, also while runs are being written to it.

    Args:
        folder: It is created; files of an earlier export in it are replaced if the store has all of their runs.
        unfinished: Write also the runs that are waiting, running or failed.
        last: Write only the last epoch of a finished run, a small part of the size; charts over epochs cannot be made from it.

    Returns:
        A sentence on what was written.
    """
    if folder.exists() and not folder.is_dir():
        raise ExchangeError(f"{folder} is a file: name a folder with --output")
    with Store(store, create=False) as opened:
        check_replaceable(folder, opened)
        written = csv_files.write(opened, folder, unfinished=unfinished, last=last)
    what = f"{plural(written.runs, 'run')} and {plural(written.epochs, 'epoch')}"
    text = f"{what} of {store} are in {folder}: {', '.join(csv_files.FILES)}"
    left_out = f"; {plural(written.left_out, 'unfinished run')} left out, --unfinished adds them"
    return text + (left_out if written.left_out else "")


def merge(source: Path, store: Path) -> Merged:
    """Add the runs of a source to a store: all of them or, if anything is damaged, none.

    Args:
        source: Another store, a folder that :func:`export` wrote, or one with such folders in it.
        store: It is created if necessary.
    """
    if not source.exists():
        raise ExchangeError(f"there is nothing at {source}: name a store, or a folder that `swr export` wrote")
    if store.exists() and source.samefile(store):
        raise ExchangeError(f"{source} is the store itself: name another one")
    if source.is_dir():
        found = [csv_files.read(folder) for folder in csv_files.folders(source) or [source]]
        return _merge([(runs, epochs.__getitem__) for runs, epochs in found], store)
    if not _is_sqlite(source):
        raise ExchangeError(f"{source} is no store (no SQLite file): name a store, or a folder that `swr export` wrote")
    with Store(source, create=False) as other, other.reading() as db:

        def read(run: str) -> list[Found]:
            rows = db.execute(f"SELECT {METRICS} FROM metrics WHERE run = ? ORDER BY epoch", (run,))
            return [Found(run, _epoch(f"{source}, run {run}", row), str(source)) for row in rows]

        rows = db.execute(f"SELECT {COLUMNS} FROM runs ORDER BY created, id").fetchall()
        return _merge([([(f"{source}, run {row[0]}", row) for row in rows], read)], store)


def _merge(parts: list[tuple[list[tuple[str, Row]], Epochs]], path: Path) -> Merged:
    """Add runs, part by part."""
    checked = [(row, _check(where, row, epochs), epochs) for runs, epochs in parts for where, row in runs]
    merged = Merged()
    with Store(path) as store, store.writing() as db:  # changed or created only now
        known = dict(db.execute("SELECT id, status FROM runs").fetchall())
        for row, config, epochs in checked:
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
            if rows := [row_of(one.epoch) for one in epochs(run)]:
                db.executemany(f"INSERT INTO metrics (run, {METRICS}) VALUES (?, {_marks(rows[0])})", [(run, *r) for r in rows])
    return merged


def _check(where: str, row: Row, epochs: Epochs) -> RunConfig | None:
    """The configuration of a run that was checked for damage, epochs and all; None if it is one of another version."""
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
    for name, value in zip(("created", "started", "finished", "seconds"), row[8:], strict=True):
        if value is not None and not (isinstance(value, int | float) and 0 <= value < math.inf):
            raise ExchangeError(f"{where}: {name} of run {run} is {value}: export again from an undamaged store")
    if host is None or created is None:
        raise ExchangeError(f"{where}: host or created is empty: export again from an undamaged store")
    check_epochs(where, config, status, epochs(run), found)
    return config


def _epoch(where: str, row: Row) -> Epoch:
    """An epoch of a store, whose columns may hold anything."""
    numbers = [*row[:7], row[8]]
    try:
        epoch = epoch_of(row)
        numbers += [*epoch.norms.values(), *epoch.measures.values()]
    except AttributeError as error:
        raise ExchangeError(f"{where}, epoch {row[0]!r}: norms or measures are damaged ({error}): restore a copy") from error
    if wrong := [value for value in numbers if not isinstance(value, int | float | None)]:
        raise ExchangeError(f"{where}, epoch {row[0]!r}: {wrong[0]!r} is not a number: restore a copy")
    return epoch


def _is_sqlite(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(16) == b"SQLite format 3\0"
    except OSError as error:
        raise ExchangeError(f"{path} cannot be read ({error.strerror}): check its permissions") from error


def _marks(values: Row) -> str:
    return ", ".join("?" * len(values))
