"""One progress bar, on a terminal; elsewhere silence."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


@contextmanager
def bar(title: str, total: int, *, unit: str = "") -> Iterator[Callable[[int], None]]:
    """A bar on standard error; what it yields sets how far the work has come.

    >>> with bar("reading", 3) as show:
    ...     for done in range(3):
    ...         show(done + 1)

    title: what is going on.
    total: how much there is to do.
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
