"""A progress bar on a terminal, and nothing elsewhere."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


@contextmanager
def bar(title: str, total: int, *, unit: Literal["bytes", ""] = "") -> Iterator[Callable[[int], None]]:
    """A bar on standard error; it yields a function that sets how much is done.

    >>> with bar("reading", 3) as show:
    ...     for done in range(3):
    ...         show(done + 1)

    Args:
        title: What is being done.
        total: How much there is to do.
        unit: ``"bytes"`` shows megabytes instead of a count.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda done: None
        return
    amount = DownloadColumn() if unit == "bytes" else MofNCompleteColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), amount, TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(title, total=total)
        yield lambda done: progress.update(task, completed=done)
