"""Read the published bytes from files on disk: raw, gzipped or inside a tar, never more of them than were published.

Nothing is extracted to disk. Whatever a file claims, no more is unpacked than the table of sources allows, and an archive
with a member that points outside the archive is rejected.
"""

import gzip
import hashlib
import io
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO

from swr.bench.data.dataset import DataError
from swr.bench.data.places import SLACK, Found
from swr.bench.data.sources import Source

MEMBERS = 64  # most members of a tar; the published ones have fewer than ten


@dataclass(frozen=True)
class Content:
    """The bytes of one published file, and where they came from, for messages."""

    where: str
    data: bytes


def read_parts(source: Source, found: Found) -> dict[str, Content]:
    """The unpacked bytes of every part, each of exactly its published size."""
    if found.archive is not None:
        contents = _read_tar(source, found.archive)
    else:
        contents = {
            part.name: Content(str(path), _read_file(source, path, part.size))
            for part in source.parts
            for path in (found.files[part.name],)
        }
    for part in source.parts:
        content = contents.get(part.name)
        if content is None:
            raise DataError(f"{found.archive} holds no {part.name}: {source.remedy}")
        if len(content.data) < part.size:
            raise DataError(f"{content.where} is truncated, it holds {len(content.data)} of {part.size} bytes: {source.remedy}")
        if len(content.data) > part.size:
            raise DataError(f"{content.where} is too long, it holds more than {part.size} bytes: {source.remedy}")
    return contents


def check_digests(source: Source, contents: dict[str, Content]) -> None:
    """Raise a DataError unless the bytes are the published ones."""
    for part in source.parts:
        content = contents[part.name]
        algorithm, _, published = part.digest.partition(":")
        found = hashlib.new(algorithm, content.data, usedforsecurity=False).hexdigest()
        if found != published:
            raise DataError(
                f"{content.where} is not the published file, its {algorithm} is {found} and should be {published}: "
                f"{source.remedy}"
            )


def check_member(archive: Path, name: str, *, link: bool) -> None:
    """Raise a DataError for a member of an archive that would be written outside the folder it is unpacked in.

    Args:
        archive: For the message.
        name: The member's name in the archive.
        link: Whether the member is a symbolic or hard link, a device, or anything but a file or a folder.
    """
    posix, windows = PurePosixPath(name), PureWindowsPath(name)
    if posix.is_absolute() or windows.anchor or ".." in windows.parts or link:
        kind = "a link or device" if link else "a path that leads outside the archive"
        raise DataError(f"{archive} holds {name!r}, {kind}: it is not the published archive, do not use it")


@contextmanager
def open_zip(path: Path) -> Iterator[zipfile.ZipFile]:
    """A zip archive whose members were checked by :func:`check_member`."""
    try:
        archive = zipfile.ZipFile(path)
    except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise DataError(f"{path} is not a whole zip archive ({error}): delete it and download it again") from error
    with archive:
        for info in archive.infolist():
            # orig_filename: zipfile has already turned some harmful names into harmless ones
            check_member(path, info.orig_filename, link=_odd_mode(info.external_attr >> 16))
        yield archive


def read_member(archive: zipfile.ZipFile, path: Path, name: str, limit: int) -> bytes:
    """One member of a zip archive, unpacked, at most ``limit`` bytes."""
    try:
        info = archive.getinfo(name)
        if info.file_size > limit:
            raise DataError(f"{path} holds {name!r} of {info.file_size} bytes, more than the {limit} expected there")
        return archive.read(info)  # never reads past file_size
    except KeyError:
        raise DataError(f"{path} holds no {name!r}: delete it and download it again") from None
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error, RuntimeError, NotImplementedError) as error:
        raise DataError(f"{name!r} in {path} cannot be unpacked ({error}): delete it and download it again") from error


def _odd_mode(mode: int) -> bool:
    return stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR)


def _read_file(source: Source, path: Path, size: int) -> bytes:
    """At most one byte more than ``size``, which is enough to see that a file is too long."""
    packed = path.suffix == ".gz"
    try:
        with gzip.open(path) if packed else path.open("rb") as file:
            return file.read(size + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path} is not a whole gzip file ({error}): {source.remedy}") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error}): check the file and its permissions") from error


def _read_tar(source: Source, path: Path) -> dict[str, Content]:
    sizes = {part.name: part.size for part in source.parts}
    contents = {}
    try:
        with gzip.open(path) as raw:
            limited = _Limited(raw, sum(sizes.values()) + SLACK, path)
            with tarfile.open(fileobj=limited, mode="r|") as tar:
                for index, member in enumerate(tar):
                    check_member(path, member.name, link=not (member.isreg() or member.isdir()))
                    if index >= MEMBERS:
                        raise DataError(f"{path} holds more than {MEMBERS} members: {source.remedy}")
                    name = PurePosixPath(member.name).name
                    if not member.isreg() or name not in sizes:
                        continue
                    if member.size > sizes[name]:
                        raise DataError(
                            f"{name} in {path} is too long, {member.size} instead of {sizes[name]} bytes: {source.remedy}"
                        )
                    file = tar.extractfile(member)
                    assert file is not None  # it is a regular file
                    contents[name] = Content(f"{name} in {path}", file.read())
            while limited.read(1 << 20):  # to the end, where gzip keeps its checksum
                pass
    except (EOFError, zlib.error, gzip.BadGzipFile, tarfile.TarError) as error:
        raise DataError(f"{path} is not a whole tar.gz archive ({error}): {source.remedy}") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error}): check the file and its permissions") from error
    return contents


class _Limited(io.BufferedIOBase):
    """A stream that refuses to yield more than a number of bytes, whatever the headers inside promise."""

    def __init__(self, file: IO[bytes] | gzip.GzipFile, limit: int, path: Path) -> None:
        super().__init__()
        self.file, self.left, self.path = file, limit, path

    def read(self, size: int | None = -1, /) -> bytes:
        data = self.file.read(self.left + 1 if size is None or size < 0 else size)
        self.left -= len(data)
        if self.left < 0:
            raise DataError(f"{self.path} unpacks to far more than was published: it is not the published archive")
        return data
