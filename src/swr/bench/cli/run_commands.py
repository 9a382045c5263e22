"""The commands that train: `quickstart`, `run` and `sweep`."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from swr import methods
from swr.bench import data, experiments
from swr.bench.cli import arguments, cluster, options, reporting
from swr.bench.cli.preview import preview
from swr.bench.experiments import RunConfig, find_column, find_experiment
from swr.bench.experiments.hyper_checks import check_hyper
from swr.bench.report import terminal
from swr.bench.running import Estimator, Outcome, execute
from swr.bench.running.progress import view
from swr.bench.store import Record, Store, provenance_of
from swr.bench.words import duration, plural
from swr.errors import SWRError

HERE = options.Cluster()


def quickstart(command: options.Quickstart, again: str) -> int:
    """Digits, noisy labels, warm start."""
    configs = experiments.expand("quickstart")
    code, records = execute_runs("quickstart", configs, command.store, command.workers, None, "cpu", again)
    if code in (0, 1) and any(record.status == "done" for record in records):
        print("Digits with 30 % noisy labels, warm start: final test accuracy, mean ± standard deviation\n")
        print(terminal.gaps(records))
    if code == 0:
        print(
            "\nThe cold start had all the data from the beginning; the others trained on half of it first."
            "\nNext: swr run warm-start --columns mnist-mlp --dry-run"
        )
    return _conclude(code, records, command.store)


def run(command: options.Run, again: str) -> int:
    """An experiment."""
    configs = runs_of(command)
    for config in {(config.column, config.method): config for config in configs}.values():
        methods.find(config.method)  # the user's own are imported now, so that mistakes show before anything runs
        if command.hyper:
            check_hyper(find_column(config.column), config.method, dict(config.hyper))
    device = cluster.device(command.cluster, command.device)
    if command.cluster.emit:
        return cluster.emit(command.experiment, again)
    if command.dry_run:
        workers = arguments.workers(command.workers)
        return preview(command.experiment, configs, command.store, workers, command.data, device)
    code, records = execute_runs(
        command.experiment, configs, command.store, command.workers, command.data, device, again, command.cluster
    )
    if code in (0, 1) and any(record.status == "done" for record in records):
        print(terminal.table(records))
    return _conclude(code, records, command.store)


def runs_of(command: options.Run) -> list[RunConfig]:
    """What a command runs."""
    return experiments.expand(
        command.experiment,
        columns=arguments.names(command.columns),
        methods=arguments.names(command.methods),
        seeds=arguments.seeds(command.seeds),
        epochs_scale=command.epochs_scale,
        hyper=arguments.hyper(command.hyper),
        inputs=command.inputs,
        examples=command.examples,
        validation=command.validation,
        lr_schedule=command.lr_schedule,
        precision=command.precision,
    )


def sweep(command: options.Sweep, again: str) -> int:
    """A method's grid."""
    configs = experiments.sweep(
        command.scenario,
        command.column,
        command.method,
        seeds=arguments.seeds(command.seeds),
        epochs_scale=command.epochs_scale,
        select=command.select,
        grid=arguments.grid(command.grid),
        examples=command.examples,
        lr_schedule=command.lr_schedule,
    )
    for config in configs:
        methods.check_options(config.method, dict(config.hyper))
    device = cluster.device(command.cluster, command.device)
    title = f"sweep {command.scenario} {command.column} {command.method}"
    if command.cluster.emit:
        return cluster.emit(f"sweep-{command.scenario}", again)
    if command.dry_run:
        return preview(title, configs, command.store, arguments.workers(command.workers), command.data, device)
    code, records = execute_runs(title, configs, command.store, command.workers, command.data, device, again, command.cluster)
    found = terminal.candidates(records, command.select)
    if code in (0, 1) and found:
        scenario = find_experiment(command.scenario).scenario
        on = "the test set, as the paper does" if command.select == "test" else "held-out training data"
        on = on if scenario.holds_out else f"their {scenario.metric.name}"
        table = terminal.points(found, scenario.metric.name)
        print(f"{command.method} on {command.scenario} {command.column}, selected on {on}:\n\n{table}\n")
        print(f"best: {found[0].label}" + ("" if code == 0 else " (of what is done)"))
    return _conclude(code, records, command.store)


def execute_runs(
    title: str,
    configs: Sequence[RunConfig],
    path: Path,
    workers: int | None,
    folder: Path | None,
    device: str,
    again: str,
    on: options.Cluster = HERE,
) -> tuple[int, list[Record]]:
    """Run what is missing and show the progress; the exit code and the records of all runs."""
    arguments.workers(workers, device)
    console = Console(stderr=True)
    Store.check_place(path, create=True)
    done = _done(path, configs)
    for name in dict.fromkeys(find_column(c.column).dataset for c in configs if c.identity not in done):
        data.load(name, folder)  # before a store is created, since its files may be damaged
    with Store(path) as store:
        estimator = Estimator(store.timings(provenance_of(device).host))
        cluster.warn_of_network(path)
        begin = time.monotonic()
        try:
            todo = any(config.identity not in done for config in configs)
            engine = cluster.engine(on, workers, folder, device) if todo else None
            count = engine.capacity if engine else arguments.workers(workers, device)
            with view(title, console, estimator, count) as shown:
                outcome = execute(configs, store, workers=count, data=folder, device=device, view=shown, engine=engine)
        except SWRError as error:  # not wrong usage any more: the disk is full, no process can be started
            print(f"swr: {error}", file=sys.stderr)
            return 1, []
        code = _close(outcome, console, len(configs), time.monotonic() - begin, again)
        order = {config.identity: index for index, config in enumerate(configs)}
        return code, sorted(store.runs(ids=order), key=lambda record: order[record.id])


def _done(path: Path, configs: Sequence[RunConfig]) -> set[str]:
    """The runs that are finished in a store, which may not exist yet."""
    if not (path.exists() and path.stat().st_size):
        return set()
    with Store(path, create=False) as store:
        return {record.id for record in store.runs(ids=[config.identity for config in configs]) if record.status == "done"}


def _close(outcome: Outcome, console: Console, total: int, seconds: float, again: str) -> int:
    """Print how it ended, and how to continue; the exit code."""

    def say(text: str) -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    failed, done = len(outcome.failed), len(outcome.done)
    if outcome.signal is not None:
        say(f"stopped: {done} of {plural(total, 'run')} done, progress on the rest is saved. To continue: {again}")
        return 128 + outcome.signal
    if failed:
        say(f"{failed} of {plural(total, 'run')} failed: `swr status --errors` shows why. To try them again: {again}")
        return 1
    say(f"all {plural(total, 'run')} done, {duration(seconds)}\n")
    return 0


def _conclude(code: int, records: Sequence[Record], path: Path) -> int:
    """Write the page; the exit code is that of the runs."""
    sys.stdout.flush()
    if records:
        reporting.conclude(path)
    return code
