"""The command `leaderboard`: tune every row, run its best configuration on the reported seeds, and write the board."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from swr.bench import data
from swr.bench.cli import arguments, options
from swr.bench.cli.run_commands import execute_runs
from swr.bench.experiments import RunConfig, find_column
from swr.bench.experiments.board import PLACES, Row, places, references, rows
from swr.bench.experiments.study import Setting
from swr.bench.report.leaderboard import board_text
from swr.bench.report.leaderboard.costs import costs
from swr.bench.report.leaderboard.standings import board, value
from swr.bench.report.results import opened
from swr.bench.report.selection import best, ended
from swr.bench.running import Estimator
from swr.bench.store import Record, Store, provenance_of
from swr.bench.words import aligned, plural
from swr.errors import OptionError

TOGETHER = 8
"""rows that are tuned, then reported, before the next ones begin"""


def leaderboard(command: options.Leaderboard, again: str) -> int:
    """Run what is missing, or say how much that is, or write the board."""
    chosen = rows(arguments.names(command.methods))
    named = arguments.names(command.streams)
    where = places(named, arguments.seeds(command.seeds), command.epochs_scale)
    if command.report:
        everywhere = places(named or list(PLACES), arguments.seeds(command.seeds), command.epochs_scale)
        return _report(command, chosen, everywhere)
    if command.dry_run:
        return _preview(command, chosen, where)
    code = 0
    for place in where:
        for title, configs in steps(place, chosen, command.store):
            ended, _ = execute_runs(title, configs, command.store, command.workers, command.data, "cpu", again)
            if ended > 1:
                return ended
            code = max(code, ended)
    print(board_text.terminal(board(_records(command.store), chosen, where), costs()))
    print("\nwrite the page with the same command and --report", file=sys.stderr)
    return code


def steps(place: Setting, chosen: Sequence[Row], store: Path) -> Iterator[tuple[str, list[RunConfig]]]:
    """What is run in a place, one part after another: the next part depends on what the one before has found.

    The references come first. Then some rows at a time are tuned and reported, so that a board can be made early.
    """
    known = [*references(place).values(), *references(place, tune=True).values()]
    yield f"{place.name}, references", [config for configs in known for config in configs]
    here = [row for row in chosen if row.runs_in(place)]
    for first in range(0, len(here), TOGETHER):
        group = here[first : first + TOGETHER]
        title = f"{place.name}, rows {first + 1}-{first + len(group)} of {len(here)}"
        if grid := [config for row in group for config in row.grid(place)]:
            yield f"{title}, tuning", grid
        records = _records(store)
        if finals := [config for row in group for config in _finals(row, place, records)]:
            yield title, finals


def _finals(row: Row, place: Setting, records: dict[str, Record]) -> list[RunConfig]:
    """A row on the reported seeds; nothing if all of its configurations have failed."""
    grid = row.grid(place)
    point = best(grid, records) if grid else row.points[0]
    return [] if point is None else row.reported(place, point)


def _records(store: Path) -> dict[str, Record]:
    """The runs of a store that have ended; it may not exist yet."""
    if not (store.exists() and store.stat().st_size):
        return {}
    with opened(store) as one:
        return ended(one)


def _preview(command: options.Leaderboard, chosen: Sequence[Row], where: Sequence[Setting]) -> int:
    """Runs and hours of every place."""
    records = _records(command.store)
    estimator = Estimator()
    if records:
        with Store(command.store, create=False) as store:
            estimator = Estimator(store.timings(provenance_of("cpu").host))
    table, total, problems = [["stream", "rows", "runs", "to do", "core hours left"]], 0.0, []
    for place in where:
        runs = _all(place, chosen, records)
        try:
            if estimator.rate(runs[0]) is None:
                found = data.load(find_column(place.column).dataset, command.data, download=False)
                estimator.calibrate(runs[0], found, "cpu")
        except data.DataError as error:
            problems.append(f"no estimate for {place.column}: {error}")
        todo = [config for config in runs if value(config, records) is None]
        seconds = estimator.remaining([(config, None) for config in todo], 1)
        total += seconds or 0.0
        here = sum(row.runs_in(place) for row in chosen)
        left = "?" if seconds is None else f"{seconds / 3600:.1f}"
        table.append([place.name, str(here), str(len(runs)), str(len(todo)), left])
    print(aligned(table))
    print(f"\nleaderboard: about {total / 3600:.1f} core hours; methods that were never run here count as the average run")
    for sentence in problems:
        print(sentence)
    return 0


def _all(place: Setting, chosen: Sequence[Row], records: dict[str, Record]) -> list[RunConfig]:
    """Every run of a place; where the choice is still open, the first configuration stands for it."""
    known = [*references(place).values(), *references(place, tune=True).values()]
    found = [config for configs in known for config in configs]
    for row in chosen:
        if row.runs_in(place):
            found += [*row.grid(place), *(_finals(row, place, records) or row.reported(place, row.points[0]))]
    return list({config.identity: config for config in found}.values())


def _report(command: options.Leaderboard, chosen: Sequence[Row], where: Sequence[Setting]) -> int:
    """Write the board."""
    from swr.bench.report.leaderboard import board_page  # here, since charts take a second to import

    output = command.output or Path("leaderboard.html")
    for path, option in ((command.markdown, "--markdown"), (output, "--output")):
        if not path.parent.is_dir():
            raise OptionError(f"the folder {path.parent} of {path.name} does not exist: name another file with {option}.")
    board_text.check(command.markdown)
    with opened(command.store) as store:
        found = board(ended(store), chosen, where)
    board_text.write(found, costs(), command.markdown)
    board_page.write(found, costs(), output)
    what = f"{plural(len(found.standings), 'row')} in {plural(len(found.columns), 'place')}"
    print(f"{command.markdown}, {output}: {what}" + (f", {found.missing} not finished anywhere" if found.missing else ""))
    return 0
