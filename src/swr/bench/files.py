"""Files that several processes share: replaced as a whole, and locked by at most one process.

A file is replaced by writing a temporary file in the same folder and renaming it, so a reader sees the old file or the new
one, never a part. A lock belongs to the operating system, which releases it when its holder dies, however that happens.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any, BinaryIO, Literal

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


@contextmanager
def replacing(*paths: Path, mode: Literal["wb", "w"] = "wb", durable: bool = False) -> Iterator[list[IO[Any]]]:
    """Open one file for each path; all of them take their places at the end of the block, none if it fails.

    >>> with replacing(Path("numbers.txt"), mode="w") as [file]:
    ...     _ = file.write("1 2 3")
    >>> Path("numbers.txt").read_text()
    '1 2 3'

    Args:
        paths: The files to write; their folders must exist.
        mode: ``"w"`` for UTF-8 text with line ends as they are.
        durable: Wait until the files, and their new names, are on the disk.
    """
    temporary = [path.with_name(f".{path.name}.{os.getpid()}.tmp") for path in paths]
    text = {"encoding": "utf-8", "newline": ""} if mode == "w" else {}
    try:
        with ExitStack() as stack:
            files: list[IO[Any]] = [stack.enter_context(path.open(mode, **text)) for path in temporary]  # type: ignore[call-overload]
            yield files
            for file in files if durable else ():
                file.flush()
                os.fsync(file.fileno())
        for source, path in zip(temporary, paths, strict=True):
            source.replace(path)
        for folder in {path.parent for path in paths} if durable else ():
            _sync(folder)
    finally:
        for source in temporary:
            with suppress(OSError):
                source.unlink(missing_ok=True)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file ``path``, waiting for the process that holds it; the file is created, and stays.

    A file system without locks does not stop the work: what the lock guards is safe without it, only done twice.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        with suppress(OSError):
            lock(file)
        yield  # closing the file releases the lock


def lock(file: BinaryIO, *, wait: bool = True, shared: bool = False) -> None:
    """Lock an open file until it is closed.

    Args:
        wait: For as long as another process holds the lock; otherwise that is an OSError.
        shared: Several processes may hold it, but none exclusively (not on Windows, where every lock is exclusive).
    """
    if sys.platform == "win32":
        msvcrt.locking(file.fileno(), msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
    else:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))


def _sync(folder: Path) -> None:
    """Make a renaming durable, where folders can be synchronised."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
