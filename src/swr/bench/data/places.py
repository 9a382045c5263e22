"""Where files are: the data folders that are searched, in order, and the user's cache."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from zipfile import is_zipfile

import pooch

from swr.bench.data.dataset import DataError
from swr.bench.data.sources import Source

SLACK = 1 << 20  # room in a tar for headers, a readme and the class names


@dataclass(frozen=True)
class Found:
    """The official files of a dataset on this machine.

    ``files`` maps a part's name to the file that holds it (as it is, or gzipped), or is empty when ``archive`` holds
    them all.
    """

    files: dict[str, Path]
    archive: Path | None = None

    @property
    def paths(self) -> tuple[Path, ...]:
        """Every file that is read."""
        return tuple(self.files.values()) if self.archive is None else (self.archive,)


def cache_folder() -> Path:
    """The user's cache: ``SWR_CACHE``, or the operating system's own place.

    It holds ``data/`` (downloaded files, when no data folder is named) and ``decoded/`` (uint8 tensors).
    """
    chosen = os.environ.get("SWR_CACHE")
    return Path(chosen).expanduser() if chosen else Path(pooch.os_cache("swr"))


def data_folders(folder: str | os.PathLike[str] | None = None) -> tuple[Path, ...]:
    """The data folders in the order of the search: ``folder``, ``SWR_DATA``, the user's cache.

    The first one is also where downloads go.
    """
    named = [str(folder)] if folder is not None else []
    if chosen := os.environ.get("SWR_DATA"):
        if not Path(chosen).expanduser().exists():
            raise DataError(f"SWR_DATA names {chosen}, which does not exist: correct it, or create the folder")
        named.append(chosen)
    folders = [Path(name).expanduser() for name in named]
    for path in folders:
        if path.exists() and not path.is_dir():
            raise DataError(f"{path} is a file, not a data folder: name the folder that holds it")
    return tuple(dict.fromkeys([*folders, cache_folder() / "data"]))


def locate(source: Source, folder: str | os.PathLike[str] | None = None) -> Found | None:
    """The official files of ``source``, or None: the first place that holds *all* of them wins.

    In every data folder the unpacked parts (raw, then gzipped) come before the archive. Truncated files are returned only
    if there are no others.
    """
    truncated = None
    for root in data_folders(folder):
        try:
            for found in _candidates(source, root):
                if truncation(source, found) is None:
                    return found
                truncated = truncated or found
        except OSError as error:
            raise DataError(f"{root} cannot be searched for {source.name} ({error}): make it readable") from error
    return truncated


def truncation(source: Source, found: Found) -> str | None:
    """Which file is truncated, in one sentence, by its size or its end; the rest of it is not read."""
    if found.archive is not None:
        if found.archive.is_dir():
            return None
        size = sum(part.size for part in source.parts)
        whole = 0 <= _gzip_size(found.archive) - size <= SLACK if source.parts else is_zipfile(found.archive)
        return None if whole else f"{found.archive} is truncated: {source.remedy}"
    for part in source.parts:
        path = found.files[part.name]
        size = _gzip_size(path) if path.suffix == ".gz" else path.stat().st_size
        if size < part.size or (path.suffix == ".gz" and size != part.size):
            return f"{path} is truncated: {source.remedy}"
    return None


def _gzip_size(path: Path) -> int:
    """What the last four bytes of a gzip file say about its unpacked size; any number if it is cut."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 4))
        return int.from_bytes(file.read(4), "little")


def part_in(place: Path, name: str) -> Path | None:
    """The file in ``place`` that holds a part, as it is or gzipped."""
    for path in (place / name, place / f"{name}.gz"):
        if path.is_file():
            return path
    return None


def _candidates(source: Source, root: Path) -> Iterator[Found]:
    for sub in source.places:
        files = {part.name: part_in(root / sub, part.name) for part in source.parts}
        complete = {name: path for name, path in files.items() if path is not None}
        if complete and len(complete) == len(files):
            yield Found(complete)
    if len(source.archives) == 1:
        path = root / source.archives[0].path
        if path.is_file():
            yield Found({}, path)
        if source.folder is not None and (root / source.folder).is_dir():
            yield Found({}, root / source.folder)
