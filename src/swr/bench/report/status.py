"""What is in a store, as text for a terminal."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Literal, get_args

from swr.bench.experiments import find_experiment
from swr.bench.report.results import alive
from swr.bench.report.terminal import table
from swr.bench.running import last_line
from swr.bench.running.engines import claim
from swr.bench.store import Record, Store
from swr.bench.training.online import in_words
from swr.bench.words import aligned, duration, wrapped

State = Literal["done", "running", "interrupted", "failed", "pending"]


def report(store: Store, experiment: str | None = None, *, errors: bool = False) -> str:
    """The runs by status, then those that are running and those that failed.

    Args:
        experiment: Only this one, with its table of results.
        errors: With the traceback of every failure.
    """
    if experiment is not None:
        find_experiment(experiment)
    records = store.runs(experiment)
    if not records:
        return f"{store.path} holds no runs" + (f" of {experiment}" if experiment else "")
    states = {record.id: state(record, store) for record in records}
    parts = [_counts(records, states)]
    running = [record for record in records if states[record.id] == "running"]
    if running:
        parts.append("running:\n" + "\n".join(wrapped(_progress(record), "  ", "    ") for record in running))
    failed = [record for record in records if states[record.id] == "failed"]
    if failed:
        parts.append("failed:\n" + "\n".join(_failure(record, errors) for record in failed))
    if "interrupted" in states.values():
        parts.append("Interrupted runs continue when their command is given again.")
    if experiment is not None:
        parts.append(table([alive(record, store) for record in records]))
    return "\n\n".join(parts)


def state(record: Record, store: Store) -> State:
    """The status of a run; one that is marked as running while no process executes it was interrupted."""
    if record.status in ("done", "failed"):
        return record.status
    if claim.held(store.folder / record.id):
        return "running"
    return "interrupted" if record.last or record.status == "running" else "pending"


def _counts(records: Sequence[Record], states: dict[str, State]) -> str:
    counts = Counter((r.config.experiment, r.config.column, states[r.id]) for r in records)
    used = [name for name in get_args(State) if any(key[2] == name for key in counts)]
    seconds: dict[tuple[str, str], float] = defaultdict(float)
    for record in records:
        seconds[record.config.experiment, record.config.column] += record.seconds or 0.0
    rows = [
        [experiment, column, *(str(counts[experiment, column, name] or "") for name in used), duration(spent)]
        for (experiment, column), spent in seconds.items()
    ]
    return aligned([["experiment", "column", *used, "computed"], *rows])


def _progress(record: Record) -> str:
    last = record.last
    if last is None:
        return f"{record.config.label}  starting"
    result = in_words(record.config, last, short=True)
    return f"{record.config.label}  epoch {last.epoch}/{last.total}  loss {last.train_loss:.4f}  {result}"


def _failure(record: Record, whole: bool) -> str:
    error = record.error or "an unknown error"
    if not whole:
        return wrapped(f"{record.config.label}  {last_line(error)}", "  ", "    ")
    head = wrapped(f"{record.config.label}  (run {record.id} on {record.provenance.host})", "  ", "    ")
    return "\n".join([head, *(f"    {line}" for line in error.strip().splitlines())])
