"""The tables of a store, and how runs and epochs are converted to rows and back."""

import json
import math
from dataclasses import dataclass
from typing import Any, Literal

from swr.bench.experiments import RunConfig
from swr.bench.store.provenance import Provenance
from swr.bench.training import Epoch
from swr.errors import SWRError

Status = Literal["pending", "running", "done", "failed"]

SCHEMA = 2
APPLICATION = 0x53575221  # "SWR!" in the file's header: not every SQLite file is a store
CREATE = """
CREATE TABLE runs (
    id          TEXT PRIMARY KEY,
    config      TEXT NOT NULL,
    experiment  TEXT NOT NULL,
    "column"    TEXT NOT NULL,
    method      TEXT NOT NULL,
    seed        INTEGER NOT NULL,
    status      TEXT NOT NULL CHECK (status IN ('pending', 'running', 'done', 'failed')),
    error       TEXT,
    versions    TEXT NOT NULL,
    "commit"    TEXT,
    host        TEXT NOT NULL,
    facts       TEXT,
    created     REAL NOT NULL,
    started     REAL,
    finished    REAL,
    seconds     REAL
) WITHOUT ROWID;
CREATE INDEX runs_by_experiment ON runs (experiment, "column", method, seed);
CREATE TABLE metrics (
    run                  TEXT NOT NULL REFERENCES runs (id),
    epoch                INTEGER NOT NULL,
    stage                INTEGER NOT NULL,
    total                INTEGER NOT NULL,
    train_loss           REAL,
    train_accuracy       REAL,
    test_accuracy        REAL,
    validation_accuracy  REAL,
    norms                TEXT NOT NULL,
    seconds              REAL NOT NULL,
    measures             TEXT NOT NULL DEFAULT '{}',
    PRIMARY KEY (run, epoch)
) WITHOUT ROWID;
"""
COLUMNS = 'id, config, status, error, versions, "commit", host, facts, created, started, finished, seconds'
MIGRATIONS = {1: "ALTER TABLE metrics ADD COLUMN measures TEXT NOT NULL DEFAULT '{}'"}
"""what turns a store of this schema into one of the next"""
METRICS = "epoch, stage, total, train_loss, train_accuracy, test_accuracy, validation_accuracy, norms, seconds, measures"

_decode = json.JSONDecoder().decode


@dataclass(frozen=True)
class Record:
    """One run in the store."""

    id: str
    config: RunConfig
    status: Status
    error: str | None
    """the traceback of a failed run"""
    provenance: Provenance
    facts: dict[str, Any]
    """what the run did that its configuration does not contain: the hash of its chunks, ``taken_over``, the number of its first
    epochs that another run trained for it"""
    created: float
    started: float | None
    finished: float | None
    seconds: float | None
    """time spent in epochs, over all the processes that worked on the run"""
    last: Epoch | None
    """the newest epoch in the store"""


def origin(provenance: Provenance) -> tuple[str, str | None, str]:
    """The columns versions, commit and host."""
    return dumps(provenance.versions), provenance.commit, provenance.host


def readable(config: str) -> bool:
    """Whether this version knows a configuration; methods and options of other versions are ignored."""
    try:
        RunConfig.from_dict(json.loads(config))
    except SWRError:
        return False
    return True


def record(row: tuple[Any, ...]) -> Record:
    """A run from the columns COLUMNS, then METRICS of its newest epoch."""
    run, config, status, error, versions, commit, host, facts, created, started, finished, seconds = row[:12]
    return Record(
        id=run,
        config=RunConfig.from_dict(json.loads(config)),
        status=status,
        error=error,
        provenance=Provenance(json.loads(versions), commit, host),
        facts=json.loads(facts) if facts else {},
        created=created,
        started=started,
        finished=finished,
        seconds=seconds,
        last=None if row[12] is None else epoch_of(row[12:]),
    )


def row_of(epoch: Epoch) -> tuple[Any, ...]:
    """The columns METRICS."""
    return (
        epoch.epoch,
        epoch.stage,
        epoch.total,
        epoch.train_loss,
        epoch.train_accuracy,
        epoch.test_accuracy,
        epoch.validation_accuracy,
        _numbers(epoch.norms),
        epoch.seconds,
        _numbers(epoch.measures),
    )


def epoch_of(row: tuple[Any, ...]) -> Epoch:
    """The reverse of :func:`row_of`."""
    epoch, stage, total, loss, train, test, validation, norms, seconds, measures = row
    return Epoch(
        epoch=epoch,
        stage=stage,
        total=total,
        train_loss=_nan(loss),
        train_accuracy=_nan(train),
        test_accuracy=_nan(test),
        validation_accuracy=validation,
        norms=_values(norms),
        seconds=seconds,
        measures=_values(measures),
    )


def _numbers(values: dict[str, float]) -> str:
    return "{" + ", ".join(f"{json.dumps(name)}: {_number(value)}" for name, value in values.items()) + "}"


def _values(text: str) -> dict[str, float]:
    return {} if text == "{}" else {name: math.nan if value is None else value for name, value in _decode(text).items()}


def _number(value: float) -> str:
    """A float as JSON that every reader accepts: not-a-number is null (as in SQLite), infinity overflows."""
    if math.isnan(value):
        return "null"
    return repr(value) if math.isfinite(value) else ("1e999" if value > 0 else "-1e999")


def _nan(value: float | None) -> float:
    return math.nan if value is None else value


def dumps(value: object) -> str:
    """Plain data as JSON, always the same way."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
