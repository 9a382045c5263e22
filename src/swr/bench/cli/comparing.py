"""The command `compare`."""

from pathlib import Path

from swr.bench.cli import options
from swr.bench.report import comparison
from swr.bench.report.results import load
from swr.errors import OptionError
from swr.methods import names


def compare(command: options.Compare) -> int:
    """Two methods of a store, or the methods that two stores share."""
    first, second = command.first, command.second
    if first == second:
        raise OptionError(f"{first} is compared with itself: name two methods, or two stores.")
    stores = [_is_store(name) for name in (first, second)]
    if stores[0] != stores[1]:
        raise OptionError(f"{first} and {second} are a method and a store: name two methods, or two stores.")
    if all(stores):
        ours, other = (comparison.find_place(load(name), command.experiment, command.column, name) for name in (first, second))
        print(comparison.of_stores(ours, other, (first, second)))
    else:
        one = comparison.find_place(load(command.store), command.experiment, command.column, command.store)
        print(comparison.of_methods(one, comparison.find_side(one, first), comparison.find_side(one, second)))
    return 0


def _is_store(name: str) -> bool:
    """Whether an argument names a file, not a method; a registered method is one also next to a file of its name."""
    return name not in names() and (Path(name).exists() or name.endswith(".sqlite"))
