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

import csv
import json
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import IO, Any

from swr.bench.experiments import RunConfig
from swr.bench.files import replacing
from swr.bench.store.csv_fields import line
from swr.bench.store.database import Store
from swr.bench.store.schema import COLUMNS, METRICS, row_of
from swr.bench.training import Epoch
from swr.errors import SWRError

FILES = ("runs.csv", "metrics.csv", "norms.csv", "measures.csv")
EPOCH = ("run", "epoch", "stage", "total", "train_loss", "train_accuracy", "test_accuracy", "validation_accuracy", "seconds")
LAST = EPOCH[1:-1]
NAMED = ("run", "epoch", "name", "value")
RUN = tuple(name.strip('"') for name in COLUMNS.split(", "))

Row = tuple[Any, ...]
"""a run, as the columns COLUMNS of the store; or an epoch, as the columns METRICS"""


class ExchangeError(SWRError):
    """Results cannot be exported, or what is to be imported is damaged."""


def write(store: Store, folder: Path) -> tuple[int, int]:
    """Write the files, all or none.

    Returns:
        How many runs and epochs they hold.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(*(folder / name for name in FILES), mode="w") as files:
            return _write(store, *files)
    except OSError as error:
        raise ExchangeError(f"{folder} cannot be written ({error.strerror}): name another folder with --output") from error


def read(folder: Path) -> tuple[list[tuple[str, Row]], dict[str, list[Row]]]:
    """The runs, each with its file and line, and the epochs of each; the rows may be in any order."""
    runs = [(where, _run(where, row)) for where, row in _rows(folder / "runs.csv", ("id", "config", "versions", "facts"))]
    named: dict[str, dict[tuple[str, str], dict[str, float]]] = {}
    for name in ("norms", "measures"):
        found: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
        for where, row in _rows(folder / f"{name}.csv", NAMED):
            found[row["run"], row["epoch"]][row["name"]] = _float(where, row, "value")
        named[name] = dict(found)
    epochs: dict[str, list[Row]] = {str(row[0]): [] for _, row in runs}
    for where, row in _rows(folder / "metrics.csv", EPOCH):
        if row["run"] not in epochs:
            raise ExchangeError(f"{where}: the run {row['run']!r} is not in runs.csv: export again")
        key = row["run"], row["epoch"]
        epochs[row["run"]].append(_epoch(where, row, named["norms"].pop(key, {}), named["measures"].pop(key, {})))
    for name, left in named.items():
        for run, epoch in left:
            raise ExchangeError(f"{folder / name}.csv: metrics.csv has no epoch {epoch} of run {run}: export again")
    for run, rows in epochs.items():
        rows.sort(key=lambda row: int(row[0]))
        if len({row[0] for row in rows}) < len(rows):
            raise ExchangeError(f"{folder / 'metrics.csv'}: an epoch of run {run} is there twice: export again")
    return runs, epochs


def _write(store: Store, runs: IO[str], metrics: IO[str], norms: IO[str], measures: IO[str]) -> tuple[int, int]:
    def put(file: IO[str], *values: object) -> None:
        file.write(line(values) + "\n")

    for file, head in ((metrics, EPOCH), (norms, NAMED), (measures, NAMED)):
        put(file, *head)
    with store.reading() as db:
        rows = db.execute(f'SELECT {COLUMNS} FROM runs ORDER BY experiment, "column", method, seed, id').fetchall()
        configs = [json.loads(row[1]) for row in rows]
        hyper = sorted({name for config in configs for name, _ in config["hyper"]})
        flat = dict.fromkeys([*(field.name for field in fields(RunConfig)), *(name for config in configs for name in config)])
        del flat["hyper"]
        given = ("status", "error", "commit", "host", "created", "started", "finished", "seconds")
        put(runs, "id", *flat, *(f"hyper.{name}" for name in hyper), *LAST, *given, "config", "versions", "facts")
        count = 0
        for row, config in zip(rows, configs, strict=True):
            run, last = dict(zip(RUN, row, strict=True)), None
            for epoch in db.execute(f"SELECT {METRICS} FROM metrics WHERE run = ? ORDER BY epoch", (row[0],)):
                last, count = dict(zip(METRICS.split(", "), epoch, strict=True)), count + 1
                put(metrics, row[0], *(last[name] for name in EPOCH[1:]))
                for name, file in (("norms", norms), ("measures", measures)):
                    for key, value in json.loads(last[name]).items():
                        put(file, row[0], last["epoch"], key, value)
            chosen = dict(config["hyper"])
            put(
                runs,
                row[0],
                *(_flat(config.get(name)) for name in flat),
                *(chosen.get(name) for name in hyper),
                *(last[name] if last else None for name in LAST),
                *(run[name] for name in (*given, "config", "versions", "facts")),
            )
    return len(rows), count


def _flat(value: object) -> object:
    return " ".join(map(str, value)) if isinstance(value, list) else value


def _rows(path: Path, wanted: Iterable[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """The rows of a file by the names in its first line, each with its file and line."""
    csv.field_size_limit(2**31 - 1)  # a traceback may be long
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            head = next(reader, [])
            if missing := [name for name in wanted if name not in head]:
                raise ExchangeError(f"{path}, line 1: there is no column {missing[0]!r}: export again")
            for row in reader:
                where = f"{path}, line {reader.line_num}"
                if len(row) != len(head):
                    raise ExchangeError(f"{where}: {len(row)} fields instead of {len(head)}: export again")
                yield where, dict(zip(head, row, strict=True))
    except FileNotFoundError as error:
        raise ExchangeError(f"{path} is missing: name a folder that `swr export` wrote, or a store") from error
    except (csv.Error, UnicodeDecodeError) as error:
        raise ExchangeError(f"{path} is damaged ({error}): export again") from error
    except OSError as error:
        raise ExchangeError(f"{path} cannot be read ({error.strerror}): check its permissions") from error


def _run(where: str, row: dict[str, str]) -> Row:
    values: dict[str, Any] = {name: row.get(name) or None for name in RUN}
    for name in ("created", "started", "finished", "seconds"):
        if values[name] is not None:
            values[name] = _float(where, row, name)
    return tuple(values[name] for name in RUN)


def _epoch(where: str, row: dict[str, str], norms: dict[str, float], measures: dict[str, float]) -> Row:
    try:
        epoch, stage, total = int(row["epoch"]), int(row["stage"]), int(row["total"])
    except ValueError as error:
        raise ExchangeError(f"{where}: {error}: export again") from error
    train_loss, train, test, seconds = (
        _float(where, row, name) for name in ("train_loss", "train_accuracy", "test_accuracy", "seconds")
    )
    validation = _float(where, row, "validation_accuracy") if row["validation_accuracy"] else None
    return row_of(Epoch(epoch, stage, total, train_loss, train, test, validation, norms, seconds, measures))


def _float(where: str, row: dict[str, str], name: str) -> float:
    try:
        return float(row[name]) if row[name] else math.nan
    except ValueError as error:
        raise ExchangeError(f"{where}: {name} is {row[name]!r}, not a number: export again") from error
