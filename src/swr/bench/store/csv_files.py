"""A store as a folder of CSV files: every tool reads them, git stores them efficiently, and nothing is lost.

    runs.csv       one row per run: its configuration field by field, its status, its last epoch, where it comes from, its error
    metrics.csv    one row per run and epoch
    norms.csv      one row per run, epoch and layer: the norm of its weight
    measures.csv   one row per run, epoch and name: what the experiment measured in addition

    pandas.read_csv("folder/metrics.csv").merge(pandas.read_csv("folder/runs.csv"), left_on="run", right_on="id")

Floats keep every digit; an empty field is not-a-number or nothing. Rows are sorted by what was run, not by when, and a finished
run's rows never change. Reading uses ``config``, ``versions`` and ``facts``, which are JSON, and ignores the fields that repeat
their contents.
"""

import json
import math
from collections import defaultdict
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from sqlite3 import Connection
from typing import IO, Any, NamedTuple

from swr.bench.experiments import RunConfig
from swr.bench.files import replacing
from swr.bench.store.csv_fields import line, rows_of
from swr.bench.store.database import Store
from swr.bench.store.run_checks import LAST_ALONE, ExchangeError, Found
from swr.bench.store.schema import COLUMNS, METRICS, dumps
from swr.bench.training import Epoch

FILES = ("runs.csv", "metrics.csv", "norms.csv", "measures.csv")
EPOCH = ("run", "epoch", "stage", "total", "train_loss", "train_accuracy", "test_accuracy", "validation_accuracy", "seconds")
LAST = EPOCH[1:-1]
NAMED = ("run", "epoch", "name", "value")
RUN = tuple(name.strip('"') for name in COLUMNS.split(", "))

Row = tuple[Any, ...]
"""a run, as the columns COLUMNS of the store"""


class Written(NamedTuple):
    """What the files hold."""

    runs: int
    epochs: int
    left_out: int
    """runs that are not finished"""


def write(store: Store, folder: Path, *, unfinished: bool = False, last: bool = False) -> Written:
    """Write the files, all or none; those of an earlier export are replaced.

    Args:
        unfinished: Write also the runs that are waiting, running or failed.
        last: Write only the last epoch of a finished run.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with store.reading() as db, replacing(*(folder / name for name in FILES), mode="w") as files:
            statuses = db.execute("SELECT id, status FROM runs").fetchall()
            chosen = [run for run, status in statuses if unfinished or status == "done"]
            return Written(len(chosen), _write(db, set(chosen), *files, last=last), len(statuses) - len(chosen))
    except OSError as error:
        raise ExchangeError(f"{folder} cannot be written ({error.strerror}): name another folder with --output") from error


def folders(source: Path) -> list[Path]:
    """The folders with an export: this one, and those in it."""
    first = FILES[0]
    return [one.parent for one in (source / first, *sorted(source.glob(f"*/{first}"))) if one.exists()]


def read(folder: Path) -> tuple[list[tuple[str, Row]], dict[str, list[Found]]]:
    """The runs, each with its file and line, and the epochs of each; the rows may be in any order."""
    runs = [(where, _run(where, row)) for where, row in rows_of(folder / "runs.csv", ("id", "config", "versions", "facts"))]
    named: dict[str, dict[tuple[str, str], dict[str, tuple[float, str]]]] = {}
    for file in ("norms", "measures"):
        values: dict[tuple[str, str], dict[str, tuple[float, str]]] = defaultdict(dict)
        for where, row in rows_of(folder / f"{file}.csv", NAMED):
            key, name = (row["run"], row["epoch"]), row["name"]
            if name in values[key]:
                raise ExchangeError(f"{where}: {name} of epoch {row['epoch']} of run {row['run']} is there twice: export again")
            values[key][name] = _float(where, row, "value"), where
        named[file] = dict(values)
    epochs: dict[str, list[Found]] = {str(row[0]): [] for _, row in runs}
    if len(epochs) < len(runs):
        raise ExchangeError(f"{folder / 'runs.csv'}: a run is there twice: export again")
    for where, row in rows_of(folder / "metrics.csv", EPOCH):
        if row["run"] not in epochs:
            raise ExchangeError(f"{where}: the run {row['run']!r} is not in runs.csv: export again")
        key = row["run"], row["epoch"]
        norms, measures = (named[file].pop(key, {}) for file in ("norms", "measures"))
        epochs[row["run"]].append(_epoch(where, row, norms, measures))
    for left in named.values():
        for (run, epoch), numbers in left.items():
            where = next(where for _, where in numbers.values())
            raise ExchangeError(f"{where}: metrics.csv has no epoch {epoch} of run {run}: export again")
    for run, found in epochs.items():
        found.sort(key=lambda one: one.epoch.epoch)
        for one, other in pairwise(found):
            if one.epoch.epoch == other.epoch.epoch:
                raise ExchangeError(f"{other.where}: epoch {one.epoch.epoch} of run {run} is there twice: export again")
    return runs, epochs


def _write(
    db: Connection, chosen: set[str], runs: IO[str], metrics: IO[str], norms: IO[str], measures: IO[str], *, last: bool
) -> int:
    """Write the chosen runs; how many epochs they have."""

    def put(file: IO[str], *values: object) -> None:
        file.write(line(values) + "\n")

    for file, head in ((metrics, EPOCH), (norms, NAMED), (measures, NAMED)):
        put(file, *head)
    rows = db.execute(f'SELECT {COLUMNS} FROM runs ORDER BY experiment, "column", method, seed, id').fetchall()
    rows = [row for row in rows if row[0] in chosen]
    configs = [json.loads(row[1]) for row in rows]
    hyper = sorted({name for config in configs for name, _ in config["hyper"]})
    flat = dict.fromkeys([*(field.name for field in fields(RunConfig)), *(name for config in configs for name in config)])
    del flat["hyper"]
    given = ("status", "error", "commit", "host", "created", "started", "finished", "seconds")
    put(runs, "id", *flat, *(f"hyper.{name}" for name in hyper), *LAST, *given, "config", "versions", "facts")
    count = 0
    for row, config in zip(rows, configs, strict=True):
        run, newest = dict(zip(RUN, row, strict=True)), None
        epochs = db.execute(f"SELECT {METRICS} FROM metrics WHERE run = ? ORDER BY epoch", (row[0],)).fetchall()
        shortened = last and run["status"] == "done" and len(epochs) > 1
        for epoch in epochs[-1:] if shortened else epochs:
            newest, count = dict(zip(METRICS.split(", "), epoch, strict=True)), count + 1
            put(metrics, row[0], *(newest[name] for name in EPOCH[1:]))
            for name, file in (("norms", norms), ("measures", measures)):
                for key, value in json.loads(newest[name]).items():
                    put(file, row[0], newest["epoch"], key, value)
        if shortened:
            run["facts"] = dumps({**json.loads(run["facts"] or "{}"), **LAST_ALONE})
        values = dict(config["hyper"])
        put(
            runs,
            row[0],
            *(_flat(config.get(name)) for name in flat),
            *(values.get(name) for name in hyper),
            *(newest[name] if newest else None for name in LAST),
            *(run[name] for name in (*given, "config", "versions", "facts")),
        )
    return count


def _flat(value: object) -> object:
    return " ".join(map(str, value)) if isinstance(value, list) else value


def _run(where: str, row: dict[str, str]) -> Row:
    values: dict[str, Any] = {name: row.get(name) or None for name in RUN}
    for name in ("created", "started", "finished", "seconds"):
        if values[name] is not None:
            values[name] = _float(where, row, name)
    return tuple(values[name] for name in RUN)


def _epoch(
    where: str, row: dict[str, str], norms: dict[str, tuple[float, str]], measures: dict[str, tuple[float, str]]
) -> Found:
    try:
        epoch, stage, total = int(row["epoch"]), int(row["stage"]), int(row["total"])
    except ValueError as error:
        raise ExchangeError(f"{where}: {error}: export again") from error
    train_loss, train, test, seconds = (
        _float(where, row, name) for name in ("train_loss", "train_accuracy", "test_accuracy", "seconds")
    )
    validation = _float(where, row, "validation_accuracy") if row["validation_accuracy"] else None
    found = Epoch(epoch, stage, total, train_loss, train, test, validation, _values(norms), seconds, _values(measures))
    return Found(row["run"], found, where, {name: line for name, (_, line) in (norms | measures).items()})


def _values(named: dict[str, tuple[float, str]]) -> dict[str, float]:
    return {name: value for name, (value, _) in named.items()}


def _float(where: str, row: dict[str, str], name: str) -> float:
    try:
        value = float(row[name]) if row[name] else math.nan
    except ValueError as error:
        raise ExchangeError(f"{where}: {name} is {row[name]!r}, not a number: export again") from error
    if row[name] and math.isnan(value):  # an export leaves such a field empty
        raise ExchangeError(f"{where}: {name} of run {row.get('run', row.get('id'))} is {row[name]}: export again")
    return value
