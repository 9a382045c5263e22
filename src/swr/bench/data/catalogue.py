"""Datasets by name: find the official files, load, download and check them."""

import difflib
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from swr.bench.data import cache
from swr.bench.data.archives import check_digests, read_parts
from swr.bench.data.dataset import DataError, Dataset, Split, moments
from swr.bench.data.download import check_hash, fetch
from swr.bench.data.places import Found, data_folders, locate, part_in, truncation
from swr.bench.data.readers import bits, cartpole, cifar, digits, idx, tinyimagenet
from swr.bench.data.readers import folder as image_folder
from swr.bench.data.sources import SOURCES, Archive, Source

FOLDER = "folder:"
READERS = {"mnist": idx.read, "cifar10": cifar.read, "cifar100": cifar.read}
GENERATED = {bits.NAME: bits.read, cartpole.NAME: cartpole.read}
"""shapes without data: a stream generates it, or an agent"""

PathLike = str | os.PathLike[str]


@dataclass(frozen=True)
class Status:
    """What this machine has of a dataset."""

    name: str
    source: Source | None
    """the published facts; None for ``folder:PATH``"""
    files: tuple[Path, ...]
    """the files that would be read: official files, the folder, nothing for what is embedded or missing"""
    cached: Path | None
    """the cache file of decoded tensors, if there is a valid one"""
    official: bool | None = None
    """whether the files hash to what was published; None when not checked or nothing is published"""
    problem: str | None = None
    """why the dataset cannot be loaded, in one sentence; a file that is truncated is one of ``files`` all the same"""


def known() -> tuple[str, ...]:
    """The names of the datasets, the embedded one first; ``folder:PATH`` is also accepted."""
    return tuple(SOURCES)


def load(name: str, folder: PathLike | None = None, *, download: bool = True) -> Dataset:
    """A dataset as uint8 tensors, memory-mapped from a cache file that the first call writes.

    >>> load("digits").classes
    10

    Args:
        name: One of :func:`known`, or ``folder:PATH`` for ``PATH/train/<class>/*`` and ``PATH/test/<class>/*``; ``bits`` and
            ``cartpole`` for the shape of what a stream generates.
        folder: Searched first for official files, before ``SWR_DATA`` and the user's cache.
        download: Fetch official files that are in none of these.
    """
    if name in GENERATED:
        return GENERATED[name]()
    ready = _prepare(name, folder)
    if ready is None:
        source, places = SOURCES[name], " or ".join(map(str, data_folders(folder)))
        if not download:
            raise DataError(f"{name} was not found in {places}: run `swr data download {name}` or set SWR_DATA")
        try:
            _download(source, folder, None)
        except DataError as error:
            raise DataError(f"{name} was not found in {places}, and {error}") from error
        ready = _prepare(name, folder)
        assert ready is not None  # it was downloaded to a place that is searched
    dataset = cache.fetch(ready.label, ready.place, ready.identity, ready.decode)
    return replace(dataset, name=name)


def status(name: str, folder: PathLike | None = None) -> Status:
    """Where a dataset's files are and whether it is decoded already; fast, since nothing is hashed or decoded."""
    source = _source(name)
    data_folders(folder)  # a wrong folder is wrong for every dataset
    try:
        ready = _prepare(name, folder)
    except DataError as error:
        return Status(name, source, (), None, problem=str(error))
    if ready is None:
        places = " or ".join(map(str, data_folders(folder)))
        return Status(name, source, (), None, problem=f"{name} was not found in {places}")
    cached = cache.path_of(ready.label, ready.place, ready.identity)
    return Status(name, source, ready.files, cached if cache.read(cached, whole=False) else None, problem=ready.truncated)


def check(name: str, folder: PathLike | None = None) -> Status:
    """Read a dataset's files again, compare them with the published hashes, and say what is wrong with them."""
    result = status(name, folder)
    ready = _prepare(name, folder) if result.files or result.problem is None else None
    if ready is None:
        return result
    if result.cached is not None and cache.read(result.cached) is None:
        result = replace(result, cached=None)
    source = result.source
    if source is None or not source.archives or ready.files[0].is_dir():
        official = None
    else:
        official = bool(source.parts) or _is_published(ready.files[0], source.archives[0])
    try:
        if source is None or source.parts or not official:
            ready.decode()  # compares the hashes of the parts, where there are any
    except DataError as error:
        return replace(result, official=None if official is None else False, problem=str(error))
    return replace(result, official=official, problem=None)


def download(name: str, folder: PathLike | None = None, *, base: str | None = None) -> Status:
    """Fetch the official files, unless they are on this machine, and check them.

    Args:
        name: One of :func:`known`.
        folder: Where they go; by default ``SWR_DATA``, else the user's cache.
        base: An address to download from instead of the published one.
    """
    source = _source(name)
    if source is None or not source.archives:
        raise DataError(f"{name} is not a dataset to download, it is already here")
    if locate(source, folder) is None:
        _download(source, folder, base)
    result = check(name, folder)
    if result.problem is not None:
        raise DataError(result.problem)
    if result.official is False:
        check_hash(result.files[0], source.archives[0])
    return result


@dataclass(frozen=True)
class _Ready:
    """A dataset whose files are there: what its cache file is called, and how to read it."""

    label: str
    place: str
    identity: list[str]
    files: tuple[Path, ...]
    decode: Callable[[], Dataset]
    truncated: str | None = None


def _source(name: str) -> Source | None:
    """The entry of the table, or None for a folder."""
    if name.startswith(FOLDER) and name != FOLDER:
        return None
    if name in SOURCES:
        return SOURCES[name]
    plain = "".join(filter(str.isalnum, name.lower()))
    guess = difflib.get_close_matches(plain, SOURCES, n=1)
    hint = f"did you mean {guess[0]}? " if guess else ""
    raise DataError(f"there is no dataset {name!r}: {hint}known are {', '.join(SOURCES)} and {FOLDER}PATH")


def _prepare(name: str, folder: PathLike | None) -> _Ready | None:
    source = _source(name)
    if source is None:
        root = Path(name.removeprefix(FOLDER)).expanduser().resolve()
        identity = image_folder.identity(root)
        return _Ready("folder", str(root), identity, (root,), lambda: _dataset(name, *image_folder.read(root)))
    if name == "digits":
        return _Ready(name, "", digits.identity(), (), lambda: _dataset(name, source.classes, *digits.read()))
    found = locate(source, folder)
    if found is None:
        return None
    paths = tuple(path.resolve() for path in found.paths)
    identity = [f"{path} {path.stat().st_size} {path.stat().st_mtime_ns}" for path in paths]
    cut = truncation(source, found)
    if source.parts:
        return _Ready(name, str(paths[0]), identity, paths, lambda: _read_parts(source, found), cut)
    if paths[0].is_dir():
        identity = tinyimagenet.identity(paths[0])
    return _Ready(name, str(paths[0]), identity, paths, lambda: _read_zip(source, paths[0]), cut)


def _read_parts(source: Source, found: Found) -> Dataset:
    contents = read_parts(source, found)
    train, test = READERS[source.name](source, contents)
    check_digests(source, contents)  # last: errors in a file's format have clearer messages
    return _dataset(source.name, source.classes, train, test)


def _read_zip(source: Source, path: Path) -> Dataset:
    return _dataset(source.name, *tinyimagenet.read(source, path))


def _dataset(name: str, classes: int, train: Split, test: Split) -> Dataset:
    return Dataset(name, classes, train, test, *moments(train.images))


def _download(source: Source, folder: PathLike | None, base: str | None) -> None:
    root = data_folders(folder)[0]
    for archive in source.archives:
        if not _unpacked(archive, root):
            fetch(source, archive, root, base=base)


def _unpacked(archive: Archive, root: Path) -> bool:
    """Whether the parts of a gzipped file are already in its folder, unpacked or compressed in another way."""
    place = (root / archive.path).parent
    return bool(archive.parts) and all(part_in(place, part) for part in archive.parts)


def _is_published(path: Path, archive: Archive) -> bool:
    try:
        check_hash(path, archive)
    except DataError:
        return False
    return True
