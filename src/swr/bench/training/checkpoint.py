"""Checkpoints: replaced atomically, and rejected if a byte is wrong.

    torch.save(state)   8 bytes: CRC-32 of all before   8 bytes: "swrckpt1"

The checksum is there because torch.load does not verify the one inside its own format.
"""

from __future__ import annotations

import io
import logging
import zlib
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, cast

import torch

from swr.bench.files import replacing
from swr.errors import SWRError

MAGIC = b"swrckpt1"

log = logging.getLogger("swr")


class CheckpointError(SWRError):
    """A checkpoint could not be written, or belongs to another run."""


def write(path: Path, state: dict[str, Any]) -> None:
    """Replace the checkpoint by this state; if that fails, the previous one is untouched."""
    summed = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path, durable=True) as [file]:
            summed = _Summed(file)
            torch.save(state, cast(IO[bytes], summed))
            file.write(summed.checksum.to_bytes(8, "little") + MAGIC)
    except (OSError, RuntimeError) as error:  # torch wraps a failing write in a RuntimeError
        cause = summed.error or error if summed else error
        kept = "the previous one is kept" if path.exists() else "there is none yet"
        raise CheckpointError(
            f"the checkpoint {path} could not be written ({cause}): {kept}; make room on the disk and run again."
        ) from error


def read(path: Path) -> dict[str, Any] | None:
    """The state in a checkpoint; None if there is none, or if it is damaged: then it is renamed to ``*.corrupt``."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CheckpointError(f"the checkpoint {path} could not be read ({error}).") from error
    try:
        payload, tail = memoryview(raw)[:-16], raw[-16:]
        if len(raw) < 16 or tail[8:] != MAGIC:
            raise ValueError("it ends too early")
        if zlib.crc32(payload) != int.from_bytes(tail[:8], "little"):
            raise ValueError("its checksum does not match")
        state = torch.load(io.BytesIO(payload), map_location="cpu", weights_only=True)
        if not isinstance(state, dict):
            raise ValueError("it holds something else")
    except Exception as error:  # torch.load may raise anything on bytes that are not its own
        aside = path.with_name(f"{path.name}.corrupt")
        with suppress(FileNotFoundError):  # another run that shares the file was faster
            path.replace(aside)
        log.warning("the checkpoint %s is damaged (%s); it is now %s, and the run begins again", path, error, aside.name)
        return None
    return state


class _Summed(io.RawIOBase):
    """Passes bytes on to a file and sums them up."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.checksum = 0
        self.error: OSError | None = None

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.checksum = zlib.crc32(data, self.checksum)
        try:
            return self.file.write(data)
        except OSError as error:
            self.error = error
            raise
