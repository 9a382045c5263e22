"""What each command of `swr` does."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from rich.console import Console

from swr import methods
from swr.bench import columns, data, options, paper, progress, reporting, results, streams
from swr.bench.config import RunConfig
from swr.bench.estimate import Estimator, duration
from swr.bench.explain import explain
from swr.bench.jobs import Outcome, cores, execute
from swr.bench.provenance import provenance
from swr.bench.results import plural
from swr.bench.status import report
from swr.bench.store import Record, Store
from swr.errors import OptionError, SWRError
from swr.methods import cards


def perform(command: options.Command, again: str) -> int:
    """Do what a command asks for; the exit code.

    again: the command line, to be given again after an interruption.
    """
    match command:
        case options.Quickstart():
            return quickstart(command, again)
        case options.Run():
            return run(command, again)
        case options.Sweep():
            return sweep(command, again)
        case options.Status():
            with Store(command.store, create=False) as store:
                print(report(store, command.experiment, errors=command.errors))
            return 0
        case options.Report():
            return reporting.report(command)
        case options.Export():
            return reporting.export(command)
        case options.Import():
            return reporting.import_(command)
        case options.Data(action):
            return datasets(action)
        case options.Methods(name):
            print(cards.card(name) if name else results.aligned([["name", "method", "acts at", ""], *_methods()]))
            return 0
        case options.Explain():
            print(explain(command.target, command.input))
            return 0


def quickstart(command: options.Quickstart, again: str) -> int:
    """Digits, noisy labels, warm start."""
    configs = paper.expand("quickstart")
    code, records = _execute("quickstart", configs, command.store, command.workers, None, "cpu", again)
    if code in (0, 1) and any(record.status == "done" for record in records):
        print("Digits with 30 % noisy labels, warm start: final test accuracy, mean ± standard deviation\n")
        print(results.gaps(records))
    if code == 0:
        print(
            "\nThe cold start had all the data from the beginning; the others trained on half of it first."
            "\nNext: swr run warm-start --columns mnist-mlp --dry-run"
        )
    return _conclude(code, records, command.store)


def run(command: options.Run, again: str) -> int:
    """An experiment of the paper."""
    configs = paper.expand(
        command.experiment,
        columns=_names(command.columns),
        methods=_names(command.methods),
        seeds=command.seeds,
        epochs_scale=command.epochs_scale,
        hyper=_hyper(command.hyper),
        inputs=command.inputs,
    )
    for config in configs:  # a method of one's own is imported now, and refused before anything runs
        methods.check_options(config.method, dict(config.hyper))
    device = _device(command.device)
    if command.dry_run:
        return dry_run(command.experiment, configs, command.store, command.workers, command.data, device)
    code, records = _execute(command.experiment, configs, command.store, command.workers, command.data, device, again)
    if code in (0, 1) and any(record.status == "done" for record in records):
        print(results.table(records))
    return _conclude(code, records, command.store)


def sweep(command: options.Sweep, again: str) -> int:
    """A method's grid."""
    configs = paper.sweep(
        command.scenario,
        command.column,
        command.method,
        seeds=command.seeds,
        epochs_scale=command.epochs_scale,
        select=command.select,
    )
    device = _device(command.device)
    title = f"sweep {command.scenario} {command.column} {command.method}"
    if command.dry_run:
        return dry_run(title, configs, command.store, command.workers, command.data, device)
    code, records = _execute(title, configs, command.store, command.workers, command.data, device, again)
    found = results.candidates(records, command.select)
    if code in (0, 1) and found:
        judged = paper.protocol(command.scenario).metric
        on = "the test set, as the paper does" if command.select == "test" else "held-out training data"
        on = f"their {judged}" if command.scenario in streams.STREAMS else on
        table = results.points(found, judged)
        print(f"{command.method} on {command.scenario} {command.column}, selected on {on}:\n\n{table}\n")
        print(f"best: {found[0].label}" + ("" if code == 0 else " (of what is done)"))
    return _conclude(code, records, command.store)


def dry_run(title: str, configs: Sequence[RunConfig], path: Path, workers: int | None, folder: Path | None, device: str) -> int:
    """List the runs and estimate the time; a column that was never measured here is timed for half a second."""
    workers = _workers(workers)
    records: dict[str, Record] = {}
    estimator = Estimator()
    if path.exists():
        with Store(path) as store:
            records = {record.id: record for record in store.runs(ids=[config.identity for config in configs])}
            estimator = Estimator(store.timings(provenance(device).host))
    missing = _calibrate(configs, estimator, folder, device)
    rows = [["run", "", "epochs", "time", "state"]]
    todo = []
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
            state = f"goes on after epoch {last.epoch}" if last else "failed before" if record and record.error else "new"
        rows.append([config.identity, progress.short(config), str(config.total), time_left, state])
    total = estimator.remaining(todo, workers)
    print(f"{results.aligned(rows)}\n")
    epochs = sum(config.total - (last.epoch if last else 0) for config, last in todo)
    print(f"{title}: {plural(len(configs), 'run')}, {len(todo)} to do, {plural(epochs, 'epoch')}")
    for sentence in missing:
        print(sentence)
    at = f"with {plural(min(workers, max(1, len(todo))), 'worker')}"
    if todo:
        print(f"time: unknown {at}" if total is None else f"time: about {duration(total)} {at}")
    return 0


def datasets(action: options.DataList | options.DataDownload | options.DataCheck) -> int:
    """The datasets on this machine."""
    match action:
        case options.DataList(folder):
            print(results.aligned([["dataset", "here", "where"], *(_row(data.status(name, folder)) for name in data.known())]))
            print("\nfolder:PATH is understood besides: your own images in PATH/train/CLASS/* and PATH/test/CLASS/*")
            return 0
        case options.DataDownload(names, folder):
            chosen = _names(names)
            if chosen is None:
                raise OptionError(f"name what to download: {', '.join(n for n, s in data.SOURCES.items() if s.archives)}.")
            for name in chosen:
                found = data.download(name, folder)
                print(f"{name}: complete and as published, in {found.files[0].parent}")
            return 0
        case options.DataCheck(names, folder):
            chosen = _names(names) or [name for name in data.known() if data.status(name, folder).problem is None]
            problems = 0
            for name in chosen:
                found = data.check(name, folder)
                problems += found.problem is not None
                print(f"{name}: {found.problem or _verdict(found)}", file=sys.stderr if found.problem else sys.stdout)
            return 1 if problems else 0


def _execute(
    title: str,
    configs: Sequence[RunConfig],
    path: Path,
    workers: int | None,
    folder: Path | None,
    device: str,
    again: str,
) -> tuple[int, list[Record]]:
    """Run what is missing, telling how it goes; the exit code and all the runs' records."""
    workers = _workers(workers, device)
    console = Console(stderr=True)
    with Store(path) as store:
        known = {record.id: record.status for record in store.runs(ids=[config.identity for config in configs])}
        for name in dict.fromkeys(columns.find(c.column).dataset for c in configs if known.get(c.identity) != "done"):
            data.load(name, folder)
        estimator = Estimator(store.timings(provenance(device).host))
        if title != "quickstart":
            _calibrate([c for c in configs if known.get(c.identity) != "done"], estimator, folder, device)
        begin = time.monotonic()
        try:
            with progress.view(title, console, estimator, workers) as view:
                outcome = execute(configs, store, workers=workers, data=folder, device=device, view=view)
        except SWRError as error:  # not a matter of usage any more: the disk is full, no process can be started
            print(f"swr: {error}", file=sys.stderr)
            return 1, []
        code = _close(outcome, console, len(configs), time.monotonic() - begin, again)
        order = {config.identity: index for index, config in enumerate(configs)}
        return code, sorted(store.runs(ids=order), key=lambda record: order[record.id])


def _close(outcome: Outcome, console: Console, total: int, seconds: float, again: str) -> int:
    """Say how it ended, and how to go on."""

    def say(text: str) -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    failed, done = len(outcome.failed), len(outcome.done)
    if outcome.signal is not None:
        say(f"stopped: {done} of {plural(total, 'run')} done, the others are kept. To go on: {again}")
        return 128 + outcome.signal
    if failed:
        say(f"{failed} of {plural(total, 'run')} failed: `swr status --errors` shows why. To try them again: {again}")
        return 1
    say(f"all {plural(total, 'run')} done, {duration(seconds)}\n")
    return 0


def _conclude(code: int, records: Sequence[Record], path: Path) -> int:
    """End with the page; the exit code is that of the runs."""
    sys.stdout.flush()
    if records:
        reporting.conclude(path)
    return code


def _calibrate(configs: Sequence[RunConfig], estimator: Estimator, folder: Path | None, device: str) -> list[str]:
    """Time columns that were never measured; what is missing for that, in sentences."""
    problems = []
    for config in {config.column: config for config in configs}.values():
        if estimator.rate(config) is None:
            try:
                dataset = data.load(columns.find(config.column).dataset, folder, download=False)
                estimator.calibrate(config, dataset, device)
            except SWRError as error:
                problems.append(f"no estimate for {config.column}: {error}")
    return problems


def _names(given: Sequence[str]) -> list[str] | None:
    """Names given with spaces or commas between; None for none."""
    names = [name for text in given for name in text.split(",") if name]
    return names or None


def _hyper(given: Sequence[str]) -> dict[str, float] | None:
    """Numbers by name, from texts such as ``coefficient=1e-3``; None for none."""
    found = {}
    for text in _names(given) or ():
        name, _, value = text.partition("=")
        try:
            found[name] = float(value)
        except ValueError as error:
            raise OptionError(f"--hyper wants NAME=VALUE with a number, found {text!r}: write coefficient=1e-3.") from error
    return found or None


def _workers(given: int | None, device: str = "cpu") -> int:
    if given is not None and given < 1:
        raise OptionError(f"--workers must be at least 1, found {given}.")
    return given or (cores() if device == "cpu" else 1)


def _device(name: str) -> str:
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise OptionError(f"--device {name} cannot be used here ({reason}): use cpu.") from error
    return name


def _methods() -> list[list[str]]:
    return [[name, methods.find(name).title, cards.moments(name), cards.sentence(name)] for name in methods.names()]


def _row(status: data.Status) -> list[str]:
    if status.problem is not None:
        archives = status.source.archives if status.source else ()
        size = sum(archive.size for archive in archives)
        return [status.name, "no", f"`swr data download {status.name}` fetches {size / 1e6:.0f} MB"]
    where = str(status.files[0].parent) if status.files else "comes with scikit-learn"
    return [status.name, "yes", where]


def _verdict(status: data.Status) -> str:
    if status.official is None:
        return "sound"
    return "complete and as published" if status.official else "sound, but not the published file"
