"""One order of the methods for every table, legend and list: references first, then as in the registry, then users' own."""

from swr import methods
from swr.bench.experiments import COLD, COLUMNS


def place(line: str) -> tuple[int, str]:
    """What to sort the lines of a table or chart by.

    >>> sorted(["mine:Method", "swr", "cold", "l2", "vanilla"], key=place)
    ['cold', 'vanilla', 'l2', 'swr', 'mine:Method']

    Args:
        line: A method's name, or ``cold``.
    """
    order = (COLD, *methods.names())
    return (order.index(line), "") if line in order else (len(order), line)


def column_place(name: str) -> int:
    """What to sort columns by: those of the paper first, in its order."""
    return list(COLUMNS).index(name) if name in COLUMNS else len(COLUMNS)
