"""The cache of decoded datasets: one memory-mapped file for each, with a JSON header and four aligned arrays.

    "swrdata" and the format's version    8 bytes
    length of the header                  8 bytes, little endian
    checksum of the header                8 bytes, little endian
    header                                JSON: classes, mean, std, each array's type, shape and offset, checksum
    arrays                                train images, train labels, test images, test labels

Reading checks both checksums (3 GB a second), so a damaged file is rebuilt and never used. Writing replaces the file
atomically.
"""

import hashlib
import json
import logging
import os
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from swr.bench.data.dataset import Dataset, Split
from swr.bench.data.places import cache_folder
from swr.bench.files import locked, replacing

MAGIC = b"swrdata1"
ALIGNMENT = 64
STALE = 3600.0  # seconds after which a temporary file must belong to a process that is gone
DTYPES = {"uint8": torch.uint8, "int64": torch.int64}

log = logging.getLogger("swr")


def fetch(name: str, place: str, identity: list[str], decode: Callable[[], Dataset]) -> Dataset:
    """The dataset from its cache file, which is written first if it is missing, damaged, or made from other sources.

    Args:
        name: The dataset's name, the first part of the file's.
        place: Where the sources are; a new cache file replaces those of the same name and place.
        identity: Everything else that the decoded tensors depend on (paths, sizes, times of change).
        decode: Reads the sources.
    """
    path, decoded = path_of(name, place, identity), None
    if (dataset := read(path)) is not None:
        return dataset
    try:
        with locked(path.parent / f".{_stem(name, place)}.lock"):
            if (dataset := read(path)) is not None:  # another process wrote it meanwhile
                return dataset
            decoded = decode()
            write(path, decoded)
            _tidy(path, _stem(name, place))
    except OSError as error:  # a full disk or a read-only home is no reason not to run
        log.warning("%s is not cached in %s (%s): set SWR_CACHE to a folder with room", name, path.parent, error)
    return read(path) or decoded or decode()


def path_of(name: str, place: str, identity: list[str]) -> Path:
    """The cache file of these sources."""
    return cache_folder() / "decoded" / f"{_stem(name, place)}-{_digest([MAGIC.decode(), *identity])}.swrdata"


def write(path: Path, dataset: Dataset) -> None:
    """Write a cache file, atomically."""
    arrays = [tensor.contiguous() for split in (dataset.train, dataset.test) for tensor in (split.images, split.labels)]
    offset, checksum, entries = 0, 0, []
    for tensor in arrays:
        entries.append([str(tensor.dtype).removeprefix("torch."), list(tensor.shape), offset])
        padding = -tensor.nbytes % ALIGNMENT
        checksum = zlib.crc32(bytes(padding), zlib.crc32(_bytes(tensor), checksum))
        offset += tensor.nbytes + padding
    header = json.dumps(
        {
            "name": dataset.name,
            "classes": dataset.classes,
            "mean": dataset.mean,
            "std": dataset.std,
            "arrays": entries,
            "size": offset,
            "checksum": checksum,
        }
    ).encode()
    header += b" " * (-(24 + len(header)) % ALIGNMENT)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path, durable=True) as [file]:
        file.write(MAGIC + len(header).to_bytes(8, "little") + zlib.crc32(header).to_bytes(8, "little") + header)
        for tensor in arrays:
            file.write(_bytes(tensor))
            file.write(bytes(-tensor.nbytes % ALIGNMENT))


def read(path: Path, *, whole: bool = True) -> Dataset | None:
    """The dataset in a cache file, memory-mapped, or None if there is no valid one.

    The tensors are a private map: writing to them changes neither the file nor what other processes see.

    Args:
        whole: Check the arrays too, not only the header and the file's size.
    """
    try:
        with path.open("rb") as file:
            head = file.read(24)
            length = int.from_bytes(head[8:16], "little")
            size = os.fstat(file.fileno()).st_size
            if head[:8] != MAGIC or length > size:
                return None
            raw = file.read(length)
        if zlib.crc32(raw) != int.from_bytes(head[16:24], "little"):
            return None
        header = json.loads(raw)
        if size != len(head) + length + header["size"]:
            return None
        mapped = torch.from_file(str(path), shared=False, size=size, dtype=torch.uint8)[len(head) + length :]
        if whole and zlib.crc32(_bytes(mapped)) != header["checksum"]:
            return None
        return _assemble(header, mapped)
    except (OSError, ValueError, KeyError, RuntimeError):  # RuntimeError: torch could not map the file
        return None


def _assemble(header: dict[str, Any], mapped: Tensor) -> Dataset:
    tensors = []
    for kind, shape, offset in header["arrays"]:
        dtype = DTYPES[kind]
        count = torch.Size(shape).numel() * dtype.itemsize
        tensors.append(mapped[offset : offset + count].view(dtype).view(shape))
    return Dataset(
        name=header["name"],
        classes=header["classes"],
        train=Split(tensors[0], tensors[1]),
        test=Split(tensors[2], tensors[3]),
        mean=tuple(header["mean"]),
        std=tuple(header["std"]),
    )


def _bytes(tensor: Tensor) -> memoryview:
    return tensor.reshape(-1).view(torch.uint8).numpy().data


def _tidy(path: Path, stem: str) -> None:
    """Remove older cache files of the same sources, and temporary files of processes that were killed."""
    for other in path.parent.glob(f"{stem}-*.swrdata"):
        if other != path:
            with suppress(OSError):
                other.unlink()
    for left in path.parent.glob(f".{stem}-*.tmp"):
        with suppress(OSError):
            if time.time() - left.stat().st_mtime > STALE:
                left.unlink()


def _stem(name: str, place: str) -> str:
    return f"{name}-{_digest([place])}"


def _digest(words: list[str]) -> str:
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:16]
