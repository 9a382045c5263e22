"""The store: one SQLite file with the configuration, status, provenance and metrics of every run, readable by any tool."""

import json
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from swr.bench.experiments import RunConfig
from swr.bench.store.provenance import Provenance
from swr.bench.store.schema import (
    APPLICATION,
    COLUMNS,
    CREATE,
    METRICS,
    MIGRATIONS,
    SCHEMA,
    Record,
    Status,
    dumps,
    epoch_of,
    origin,
    readable,
    record,
    row_of,
)
from swr.bench.training import Epoch
from swr.errors import SWRError

__all__ = ["Record", "Status", "Store", "StoreError"]


class StoreError(SWRError):
    """The store cannot be opened, read or written."""


class Store:
    """The runs and metrics of one file; the process that runs an experiment is the only one that writes.

    >>> with Store(":memory:") as store:
    ...     store.runs()
    []

    Args:
        path: The file.
        create: Create it if it does not exist or is empty; otherwise that is an error.
        wait: Seconds to wait for another process that is writing.
        read_only: Change nothing, not even files beside it; an older store is not migrated then, but refused.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, create: bool = True, wait: float = 30.0, read_only: bool = False
    ) -> None:
        self.path = Path(path)
        self.wait = wait
        if str(path) != ":memory:":
            self.check_place(self.path, create=create and not read_only)
        with self._readable_errors():
            place = f"{self.path.absolute().as_uri()}?mode=ro" if read_only else self.path
            self._db = sqlite3.connect(place, timeout=wait, isolation_level=None, uri=read_only)
        try:
            with self._readable_errors():
                self._check_readable() if read_only else self._open()
        except BaseException:
            self._db.close()
            raise

    @staticmethod
    def check_place(path: Path, *, create: bool) -> None:
        """Raise a StoreError if there can be no store at a path; nothing is opened or changed."""
        if path.is_dir():
            raise StoreError(f"{path} is a folder: name a file for the store, such as {path / 'swr.sqlite'}")
        if not create and not path.exists():
            raise StoreError(f"there is no store at {path}: `swr run` writes one, or name another with --store")
        if not create and not path.stat().st_size:
            raise StoreError(f"{path} is empty, not a store: name another with --store; `swr run` can make one of it")
        if not path.parent.exists():
            raise StoreError(f"the folder {path.parent} of the store {path.name} does not exist: create it first")

    @property
    def folder(self) -> Path:
        """Where the checkpoints of unfinished runs are: ``<store>.runs``."""
        return self.path.with_name(self.path.name + ".runs")

    def add(self, configs: Iterable[RunConfig], provenance: Provenance) -> None:
        """Add runs as pending; those that are in the store already are not changed."""
        rows = [
            (c.identity, dumps(c.to_dict()), c.experiment, c.column, c.method, c.seed, *origin(provenance), time.time())
            for c in configs
        ]
        with self.writing():
            self._db.executemany(
                "INSERT OR IGNORE INTO runs"
                '(id, config, experiment, "column", method, seed, status, versions, "commit", host, created)'
                "VALUES (?, ?, ?, ?, ?, ?, 'pending', ?, ?, ?, ?)",
                rows,
            )

    def start(self, run: str, provenance: Provenance) -> None:
        """A process has claimed the run and starts, or continues it."""
        with self.writing():
            self._db.execute(
                "UPDATE runs SET status = 'running', error = NULL, finished = NULL, started = coalesce(started, ?),"
                ' versions = ?, "commit" = ?, host = ? WHERE id = ?',
                (time.time(), *origin(provenance), run),
            )

    def record(self, run: str, epochs: Iterable[Epoch]) -> None:
        """Store the metrics of epochs; an epoch that is reported again is replaced."""
        with self.writing():
            self._db.executemany(
                f"INSERT OR REPLACE INTO metrics (run, {METRICS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [(run, *row_of(epoch)) for epoch in epochs],
            )

    def finish(self, run: str, facts: dict[str, Any]) -> None:
        """The run is done: on disk before this returns, since its checkpoint is removed next."""
        with self._readable_errors():
            self._db.execute("PRAGMA synchronous = FULL")
        try:
            self._end(run, "done", None, facts)
        finally:
            self._db.execute("PRAGMA synchronous = NORMAL")

    def fail(self, run: str, error: str) -> None:
        """The run ended with an error; ``error`` is its traceback."""
        self._end(run, "failed", error, None)

    def release(self, run: str) -> None:
        """The run was stopped before its end and waits to be continued."""
        with self.writing():
            self._db.execute("UPDATE runs SET status = 'pending' WHERE id = ? AND status = 'running'", (run,))

    def remove(self, runs: Iterable[str]) -> None:
        """Remove runs with their epochs, all or none; those that are done too."""
        rows = [(run,) for run in runs]
        with self.writing():
            self._db.executemany("DELETE FROM metrics WHERE run = ?", rows)
            self._db.executemany("DELETE FROM runs WHERE id = ?", rows)

    def status(self, run: str) -> tuple[Status, float | None]:
        """The status of a run, and when it finished."""
        with self._readable_errors():
            row = self._db.execute("SELECT status, finished FROM runs WHERE id = ?", (run,)).fetchone()
        return (row[0], row[1]) if row else ("pending", None)

    def runs(self, experiment: str | None = None, *, ids: Iterable[str] | None = None) -> list[Record]:
        """The runs in the order they were added: all that this version knows, or an experiment's, or those with these ids."""
        wanted = None if ids is None else set(ids)
        last = ", ".join(f"m.{name}" for name in METRICS.split(", "))
        with self._readable_errors():
            rows = self._db.execute(
                f"SELECT {', '.join('r.' + name for name in COLUMNS.split(', '))}, {last} FROM runs r LEFT JOIN metrics m"
                " ON m.run = r.id AND m.epoch = (SELECT max(epoch) FROM metrics WHERE run = r.id)"
                " WHERE ?1 IS NULL OR r.experiment = ?1 ORDER BY r.created, r.id",
                (experiment,),
            ).fetchall()
            return [record(row) for row in rows if (row[0] in wanted if wanted is not None else readable(row[1]))]

    def epochs(self, run: str) -> list[Epoch]:
        """Every epoch of a run, in order."""
        with self._readable_errors():
            rows = self._db.execute(f"SELECT {METRICS} FROM metrics WHERE run = ? ORDER BY epoch", (run,)).fetchall()
            return [epoch_of(row) for row in rows]

    def timings(self, host: str) -> list[tuple[RunConfig, int, int, float]]:
        """Per run and stage on ``host``: its configuration, the stage, how many epochs it trained, their mean seconds."""
        with self._readable_errors():
            rows = self._db.execute(
                "SELECT r.config, m.stage, count(*), avg(m.seconds) FROM runs r JOIN metrics m ON m.run = r.id"
                " WHERE r.host = ? AND m.seconds > 0 GROUP BY r.id, m.stage ORDER BY r.created DESC LIMIT 2000",
                (host,),
            ).fetchall()
            return [(RunConfig.from_dict(json.loads(config)), *rest) for config, *rest in rows if readable(config)]

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A consistent snapshot, for several queries whose results must fit together."""
        with self._readable_errors():
            self._db.execute("BEGIN")
            try:
                yield self._db
            finally:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction: all of its changes are made, or none."""
        with self._readable_errors():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _open(self) -> None:
        deadline = time.monotonic() + self.wait
        while True:  # SQLite does not wait here for another process that creates or opens the file at the same time
            try:
                self._db.execute("PRAGMA journal_mode = WAL")
                break
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
        self._db.execute("PRAGMA synchronous = NORMAL")
        self._check_schema()
        with self.writing():
            version = self._check_schema()
            if version == SCHEMA:
                return
            for statement in CREATE.split(";") if version == 0 else (MIGRATIONS[v] for v in range(version, SCHEMA)):
                self._db.execute(statement)
            self._db.execute(f"PRAGMA application_id = {APPLICATION}")
            self._db.execute(f"PRAGMA user_version = {SCHEMA}")

    def _check_readable(self) -> None:
        if (version := self._check_schema()) != SCHEMA:
            raise StoreError(f"{self.path} has schema {version}, this swr reads {SCHEMA}: open it once where it can be written")

    def _check_schema(self) -> int:
        (application,) = self._db.execute("PRAGMA application_id").fetchone()
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        (tables,) = self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if application != APPLICATION and (tables or application):
            raise StoreError(f"{self.path} is an SQLite file of another program: name another file with --store")
        if version > SCHEMA:
            raise StoreError(
                f"{self.path} was written by a newer swr (schema {version}, this one knows {SCHEMA}): "
                "update swr, or name another file with --store"
            )
        return int(version)

    def _end(self, run: str, status: Status, error: str | None, facts: dict[str, Any] | None) -> None:
        with self.writing():
            self._db.execute(
                "UPDATE runs SET status = ?, error = ?, facts = ?, finished = ?,"
                " seconds = (SELECT sum(seconds) FROM metrics WHERE run = runs.id) WHERE id = ?",
                (status, error, None if facts is None else dumps(facts), time.time(), run),
            )

    @contextmanager
    def _readable_errors(self) -> Iterator[None]:
        """Turn errors of SQLite, and of text that is not valid JSON, into a StoreError with one sentence."""
        try:
            yield
        except sqlite3.Error as error:
            raise StoreError(_sentence(self.path, self.wait, error)) from error
        except json.JSONDecodeError as error:
            raise StoreError(_damaged(self.path, error)) from error


def _sentence(path: Path, wait: float, error: sqlite3.Error) -> str:
    text = str(error)
    if "locked" in text or "busy" in text:
        return f"{path} is locked by another process and stayed so for {wait:g} s: end that process, then try again"
    if "not a database" in text:
        return f"{path} is not a store (not an SQLite file): name another file with --store"
    if "malformed" in text or "no such table" in text or "no such column" in text:
        return _damaged(path, error)
    if "full" in text:
        return f"{path} cannot grow, the disk is full: make room, then run the same command again"
    if "readonly" in text or "unable to open" in text:
        return f"{path} cannot be opened for writing ({text}): check its permissions, or name another file with --store"
    return f"{path} cannot be used ({text}): check the disk, or name another file with --store"


def _damaged(path: Path, error: Exception) -> str:
    return f"{path} is damaged ({error}): restore a copy, or move it away and run again"
