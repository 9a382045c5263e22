"""A lock between processes that dies with its holder: two runs that need the same file prepare it once."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file ``path`` (it is created, and stays), waiting for whoever holds it.

    A file system without locks does not stop the work: what the lock guards is safe without it, only done twice.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        with suppress(OSError):
            if sys.platform == "win32":
                msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
            else:
                fcntl.flock(file, fcntl.LOCK_EX)
        yield  # closing the file gives the lock back
