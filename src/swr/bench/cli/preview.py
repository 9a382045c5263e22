"""What `--dry-run` prints: the runs of a command, and an estimate of their time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from swr.bench import data
from swr.bench.experiments import RunConfig, find_column
from swr.bench.running import Estimator
from swr.bench.running.first_stages import followers
from swr.bench.running.progress import short
from swr.bench.store import Record, Store, provenance_of
from swr.bench.words import aligned, duration, plural
from swr.errors import SWRError


def preview(title: str, configs: Sequence[RunConfig], path: Path, workers: int, folder: Path | None, device: str) -> int:
    """List the runs and estimate the time; a column that was never measured here is timed on a few batches.

    Args:
        title: What would be run.
        configs: The runs.
        path: The store, which may not exist yet.
        workers: Number of processes.
        folder: Where the datasets are.
        device: Of torch.
    """
    records: dict[str, Record] = {}
    estimator = Estimator()
    if path.exists() and path.stat().st_size:
        with Store(path, create=False) as store:
            records = {record.id: record for record in store.runs(ids=[config.identity for config in configs])}
            estimator = Estimator(store.timings(provenance_of(device).host))
    missing = _calibrate(configs, estimator, folder, device)
    rows = [["run", "what", "epochs", "time", "state"]]
    todo = []
    done = {record.id for record in records.values() if record.status == "done"}
    sharing = followers(config for config in configs if config.identity not in done)
    estimator.spare(sharing)
    for config in configs:
        record = records.get(config.identity)
        last = record.last if record else None
        time_left = ""
        if record is not None and record.status == "done":
            state = "done"
        else:
            todo.append((config, last))
            seconds = estimator.remaining(todo[-1:], 1)
            time_left = "?" if seconds is None else duration(seconds)
            state = f"continues after epoch {last.epoch}" if last else "failed before" if record and record.error else "new"
            state += ", stage 1 shared" if config in sharing and not last else ""
        rows.append([config.identity, short(config), str(config.total), time_left, state])
    total = estimator.remaining(todo, workers)
    print(f"{aligned(rows)}\n")
    epochs = sum(c.total - (last.epoch if last else c.epochs[0] if c in sharing else 0) for c, last in todo)
    print(f"{title}: {plural(len(configs), 'run')}, {len(todo)} to do, {plural(epochs, 'epoch')}")
    for sentence in missing:
        print(sentence)
    at = f"with {plural(min(workers, max(1, len(todo))), 'worker')}"
    if todo:
        print(f"time: unknown {at}" if total is None else f"time: about {duration(total)} {at}")
    return 0


def _calibrate(configs: Sequence[RunConfig], estimator: Estimator, folder: Path | None, device: str) -> list[str]:
    """Time columns that were never measured; returns a sentence for each column that cannot be timed."""
    problems = []
    for config in {config.column: config for config in configs}.values():
        if estimator.rate(config) is None:
            try:
                dataset = data.load(find_column(config.column).dataset, folder, download=False)
                estimator.calibrate(config, dataset, device)
            except SWRError as error:
                problems.append(f"no estimate for {config.column}: {error}")
    return problems
