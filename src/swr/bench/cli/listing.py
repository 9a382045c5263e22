"""The experiments and columns that `swr run --help` lists, kept as text: making it takes torch, and reading it does not.

``python -m swr.bench.cli.listing > src/swr/bench/cli/listing.txt`` writes it.
"""

from pathlib import Path
from textwrap import wrap

FILE = Path(__file__).with_name("listing.txt")


def listing() -> str:
    """All experiments and columns, a name and a phrase each."""
    from swr.bench.experiments import COLUMNS, experiments  # here, since they need torch

    about = {name: one.about for name, one in experiments().items()}
    titles = {name: one.title for name, one in COLUMNS.items()}
    return f"Experiments:\n{_entries(about)}\n\nColumns:\n{_entries(titles)}\n"


def _entries(entries: dict[str, str]) -> str:
    width = max(map(len, entries))
    lines = []
    for name, text in entries.items():
        first, *more = wrap(text, 76 - width)
        lines += [f"  {name:<{width}}  {first}", *(" " * (width + 4) + line for line in more)]
    return "\n".join(lines)


if __name__ == "__main__":
    print(listing(), end="")
