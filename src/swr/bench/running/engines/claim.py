"""A claim on a run: a lock that the operating system releases when its holder dies, however that happens."""

import errno
import os
import shutil
from pathlib import Path
from typing import BinaryIO

from swr.bench import files
from swr.errors import SWRError

NAME = "claim"
TAKEN = {errno.EACCES, errno.EAGAIN, errno.EWOULDBLOCK, errno.EDEADLK}


class ClaimError(SWRError):
    """Runs cannot be claimed in this folder."""


class Claim:
    """The exclusive right to work on the run in ``folder``; see :func:`take`."""

    def __init__(self, folder: Path, file: BinaryIO) -> None:
        self.folder = folder
        self._file = file

    def release(self, *, remove: bool = False) -> None:
        """Release the claim; ``remove`` deletes the folder first, with the checkpoint in it."""
        if remove:
            shutil.rmtree(self.folder, ignore_errors=True)
        self._file.close()


def take(folder: Path) -> Claim | None:
    """Claim the run whose files are in ``folder``, or None if another process has claimed it."""
    while True:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            file = (folder / NAME).open("a+b")
        except FileNotFoundError:
            continue  # its last holder removed the folder between these two lines
        except OSError as error:
            raise ClaimError(f"{folder} cannot be written ({error.strerror}): name another store with --store") from error
        try:
            files.lock(file, wait=False)
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
    """Whether a process executes the run now."""
    try:
        file = (folder / NAME).open("r+b")
    except OSError:
        return False
    with file:
        try:
            files.lock(file, wait=False, shared=True)
        except OSError as error:
            return error.errno in TAKEN
    return False


def _same(path: Path, file: BinaryIO) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False
