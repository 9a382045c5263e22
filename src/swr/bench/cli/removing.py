"""The command `remove`: runs out of a store, with their epochs and checkpoints; never one that a process executes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from swr.bench.cli import arguments, options
from swr.bench.report.status import state
from swr.bench.running.engines import claim
from swr.bench.running.first_stages import FirstStages
from swr.bench.store import Record, Store
from swr.bench.words import aligned, plural
from swr.errors import OptionError
from swr.methods import UnknownName


def remove(command: options.Remove) -> int:
    """Remove the chosen runs, or only list them; the exit code."""
    wanted = _filters(command)
    if not wanted:
        raise OptionError(
            "say which runs: their ids, --failed, --experiment, --columns or --methods; with --dry-run they are only listed."
        )
    with Store(command.store, create=False) as store:
        chosen = _chosen(store.runs(), wanted)
        if command.dry_run:
            kept = [record for record in chosen if claim.held(store.folder / record.id)]
            removed = [record for record in chosen if record not in kept]
        else:
            removed, kept = _remove(store, chosen)
        if removed:
            print(f"{aligned([['run', 'what', 'epochs', 'state'], *(_row(record, store) for record in removed)])}\n")
    epochs = sum(record.last.epoch for record in removed if record.last)
    would = " would be" if command.dry_run else ""
    print(f"{plural(len(removed), 'run')} with {plural(epochs, 'epoch')}{would} removed from {command.store}")
    if kept:
        print(f"{plural(len(kept), 'run')} kept, being executed now: {', '.join(record.id for record in kept)}")
    return 0


def _row(record: Record, store: Store) -> list[str]:
    epochs = f"{record.last.epoch if record.last else 0} of {record.config.total}"
    return [record.id, record.config.label, epochs, state(record, store)]


def _filters(command: options.Remove) -> dict[str, tuple[list[str], Callable[[Record], str]]]:
    """What was asked for, by kind: the names, and which property of a run they are compared with."""
    given: list[tuple[str, list[str] | None, Callable[[Record], str]]] = [
        ("run", arguments.names(command.runs), lambda record: record.id),
        ("experiment", arguments.names((command.experiment,) if command.experiment else ()), lambda r: r.config.experiment),
        ("column", arguments.names(command.columns), lambda record: record.config.column),
        ("method", arguments.names(command.methods), lambda record: record.config.line),
    ]
    found = {kind: (names, of) for kind, names, of in given if names is not None}
    return found | ({"status": (["failed"], lambda record: record.status)} if command.failed else {})


def _chosen(records: Sequence[Record], wanted: dict[str, tuple[list[str], Callable[[Record], str]]]) -> list[Record]:
    """The runs that match all that was asked for; a name that no run has is an error."""
    for kind, (names, of) in wanted.items():
        known = dict.fromkeys(map(of, records))
        if unknown := [name for name in names if name not in known and kind != "status"]:
            raise UnknownName(f"{kind} in the store", unknown[0], known)
    return [record for record in records if all(of(record) in names for names, of in wanted.values())]


def _remove(store: Store, records: Sequence[Record]) -> tuple[list[Record], list[Record]]:
    """Claim the runs, so that no process starts one of them meanwhile, and remove them at once; those removed, those kept."""
    claims: dict[str, claim.Claim] = {}
    new = {record.id for record in records if not (store.folder / record.id).exists()}
    gone: set[str] = set()
    try:
        for record in records:
            if (ours := claim.take(store.folder / record.id)) is not None:
                claims[record.id] = ours
        now = {record.id: record for record in store.runs(ids=claims)}
        removed = [record for record in records if record.id in now and now[record.id].status == record.status]
        store.remove(record.id for record in removed)
        gone = {record.id for record in removed}
        left = FirstStages(store.folder)
        left.open(record.config for record in store.runs() if record.status != "done")
        left.tidy(record.config for record in removed)
    finally:
        for run, ours in claims.items():
            ours.release(remove=run in gone or run in new)
        with suppress(OSError):  # other runs have checkpoints there
            store.folder.rmdir()
    return removed, [record for record in records if record.id not in gone]
