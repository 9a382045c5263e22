"""What each command of `swr` does."""

from __future__ import annotations

from swr import methods
from swr.bench.cli import options, reporting, run_commands
from swr.bench.cli.datasets import datasets
from swr.bench.cli.explain import explain
from swr.bench.report import status
from swr.bench.store import Store
from swr.bench.words import aligned
from swr.methods import cards


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
        case options.Status():
            with Store(command.store, create=False) as store:
                print(status.report(store, command.experiment, errors=command.errors))
        case options.Report():
            return reporting.report(command)
        case options.Export():
            return reporting.export(command)
        case options.Import():
            return reporting.import_(command)
        case options.Data(action):
            return datasets(action)
        case options.Methods(name):
            print(cards.card(name) if name else aligned([["name", "method", "acts at", ""], *_methods()]))
        case options.Explain():
            print(explain(command.target, command.input))
    return 0


def _methods() -> list[list[str]]:
    return [[name, methods.find(name).title, cards.moments(name), cards.sentence(name)] for name in methods.names()]
