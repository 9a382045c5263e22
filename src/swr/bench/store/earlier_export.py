"""Whether the files of a folder are an earlier export of a store, which a new one may replace without losing anything."""

from pathlib import Path

from swr.bench.store.csv_fields import rows_of
from swr.bench.store.csv_files import EPOCH, FILES, NAMED
from swr.bench.store.database import Store
from swr.bench.store.run_checks import ExchangeError
from swr.bench.words import plural

HEADS = {"metrics.csv": EPOCH, "norms.csv": NAMED, "measures.csv": NAMED}
"""the first lines of the files, but for runs.csv, whose columns depend on the runs"""


def check_replaceable(folder: Path, store: Store) -> None:
    """Raise an ExchangeError if the folder holds a file of someone else's, or a run that the store lacks."""
    present = [name for name in FILES if (folder / name).exists()]
    if not present:
        return
    for name in present:
        if name in HEADS and _head(folder / name) != HEADS[name]:
            raise _foreign(folder / name)
    if "runs.csv" not in present:
        raise ExchangeError(f"{folder} holds {present[0]}, but no runs.csv of an export: name another folder with --output")
    try:
        earlier = {row["id"]: row["status"] for _, row in rows_of(folder / "runs.csv", ("id", "status", "config", "versions"))}
    except ExchangeError as error:
        raise _foreign(folder / "runs.csv") from error
    with store.reading() as db:
        ours = dict(db.execute("SELECT id, status FROM runs").fetchall())
    lost = [run for run, status in earlier.items() if run not in ours or (status == "done" and ours[run] != "done")]
    if lost:
        raise ExchangeError(
            f"{folder} holds {plural(len(lost), 'run')} that {store.path} lacks or has not finished, such as {lost[0]}: "
            f"`swr import {folder} --store {store.path}` adds them to it, or name another folder with --output"
        )


def _head(path: Path) -> tuple[str, ...]:
    """The first line of a CSV file."""
    try:
        with path.open(encoding="utf-8-sig") as file:
            return tuple(file.readline().rstrip("\r\n").split(","))
    except UnicodeDecodeError:
        return ()
    except OSError as error:
        raise ExchangeError(f"{path} cannot be read ({error.strerror}): check its permissions") from error


def _foreign(path: Path) -> ExchangeError:
    return ExchangeError(f"{path} is no file that `swr export` wrote, and is kept: name another folder with --output")
