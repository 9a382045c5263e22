"""Where files are: the data folders that are searched, in order, and the user's cache."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pooch

from swr.bench.data.dataset import DataError
from swr.bench.data.sources import Source


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
    named += [os.environ["SWR_DATA"]] if os.environ.get("SWR_DATA") else []
    folders = [Path(name).expanduser() for name in named]
    for path in folders:
        if path.exists() and not path.is_dir():
            raise DataError(f"{path} is a file, not a data folder: name the folder that holds it")
    return tuple(dict.fromkeys([*folders, cache_folder() / "data"]))


def locate(source: Source, folder: str | os.PathLike[str] | None = None) -> Found | None:
    """The official files of ``source``, or None: the first place that holds *all* of them wins.

    In every data folder the unpacked parts (raw, then gzipped) come before the archive.
    """
    for root in data_folders(folder):
        try:
            found = next(_candidates(source, root), None)
        except OSError as error:
            raise DataError(f"{root} cannot be searched for {source.name} ({error}): make it readable") from error
        if found is not None:
            return found
    return None


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
