"""What each command of `swr` does."""

from __future__ import annotations

from swr.bench.cli import options, removing, reporting, run_commands
from swr.bench.cli.comparing import compare
from swr.bench.cli.datasets import datasets
from swr.bench.cli.diagnose import diagnose
from swr.bench.cli.explain import explain
from swr.bench.cli.leaderboard_command import leaderboard
from swr.bench.cli.method_cards import card, methods_table
from swr.bench.report import status
from swr.bench.store import Store


def perform(command: options.Command, again: str) -> int:
    """Execute a command; the exit code.

    Args:
        command: The parsed command line.
        again: The command line as text, to be given again after an interruption.
    """
    match command:
        case options.Quickstart():
            return run_commands.quickstart(command, again)
        case options.Run():
            return run_commands.run(command, again)
        case options.Sweep():
            return run_commands.sweep(command, again)
        case options.Leaderboard():
            return leaderboard(command, again)
        case options.Status():
            with Store(command.store, create=False) as store:
                print(status.report(store, command.experiment, errors=command.errors))
        case options.Report():
            return reporting.report(command)
        case options.Compare():
            return compare(command)
        case options.Export():
            return reporting.export(command)
        case options.Import():
            return reporting.import_(command)
        case options.Remove():
            return removing.remove(command)
        case options.Data(action):
            return datasets(action)
        case options.Methods(name):
            print(card(name) if name else methods_table())
        case options.Explain():
            print(explain(command.target, command.input))
        case options.Diagnose():
            diagnose(command)
    return 0
