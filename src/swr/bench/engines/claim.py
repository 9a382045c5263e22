"""A claim on a run: a lock that the operating system takes back when its holder dies, however that happens."""

import errno
import os
import shutil
import sys
from pathlib import Path
from typing import BinaryIO

from swr.errors import SWRError

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

NAME = "claim"
TAKEN = {errno.EACCES, errno.EAGAIN, errno.EWOULDBLOCK, errno.EDEADLK}


class ClaimError(SWRError):
    """Runs cannot be claimed in this place."""


class Claim:
    """The exclusive right to work on the run in ``folder``; see :func:`take`."""

    def __init__(self, folder: Path, file: BinaryIO) -> None:
        self.folder = folder
        self._file = file

    def release(self, *, remove: bool = False) -> None:
        """Give the claim back; ``remove`` deletes the folder first, with the checkpoint in it."""
        if remove:
            shutil.rmtree(self.folder, ignore_errors=True)
        self._file.close()


def take(folder: Path) -> Claim | None:
    """Claim the run whose files are in ``folder``, or None when another process has it."""
    while True:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            file = (folder / NAME).open("a+b")
        except FileNotFoundError:
            continue  # its last holder removed the folder between these two lines
        except OSError as error:
            raise ClaimError(f"{folder} cannot be written ({error.strerror}): name another store with --store") from error
        try:
            _lock(file)
        except OSError as error:
            file.close()
            if error.errno in TAKEN:
                return None
            raise ClaimError(
                f"{folder} is on a file system without locks ({error.strerror}): put the store on a local disk"
            ) from error
        if _same(folder / NAME, file):
            return Claim(folder, file)
        file.close()  # the file was removed while we opened it: what we locked is no longer the claim


def held(folder: Path) -> bool:
    """Whether some process works on the run right now."""
    try:
        file = (folder / NAME).open("r+b")
    except OSError:
        return False
    with file:
        try:
            _lock(file, shared=True)
        except OSError as error:
            return error.errno in TAKEN
    return False


def _lock(file: BinaryIO, *, shared: bool = False) -> None:
    if sys.platform == "win32":
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)


def _same(path: Path, file: BinaryIO) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False
