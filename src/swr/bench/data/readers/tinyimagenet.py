"""Tiny ImageNet, read from the official zip in place, or from the folder that it was extracted to.

    train/<wnid>/images/*.JPEG       the class is the folder
    val/images/*.JPEG                the class is in val/val_annotations.txt; these are the test split,
                                     since the official test images have no published labels
    wnids.txt                        the order of the classes

One with fewer classes or images than published is read as well; its classes are numbered among those present.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from swr.bench.data.archives import open_zip, read_member
from swr.bench.data.dataset import DataError, Split
from swr.bench.data.progress_bar import bar
from swr.bench.data.readers.image_files import opened, planes
from swr.bench.data.sources import Source

ANNOTATIONS = "val/val_annotations.txt"
IMAGE_LIMIT = 1 << 20  # bytes; the published images have some 2,000
TEXT_LIMIT = 1 << 24
PARTS = ("wnids.txt", "train", "val")
"""what is read of a folder"""


@dataclass(frozen=True)
class Members:
    """The files of an archive, packed or extracted."""

    names: list[str]
    """with slashes between folders"""
    read: Callable[[str, int], bytes]
    """the bytes of a file, at most as many as expected"""


@contextmanager
def opened_members(path: Path) -> Iterator[Members]:
    """The files of a zip or of a folder."""
    if path.is_dir():
        files = {file.relative_to(path).as_posix(): file for part in PARTS for file in _files(path / part)}
        yield Members(list(files), lambda name, limit: _read_file(files[name], limit))
        return
    with open_zip(path) as archive:
        yield Members(archive.namelist(), lambda name, limit: read_member(archive, path, name, limit))


def identity(folder: Path) -> list[str]:
    """What the decoded tensors of an extracted folder depend on: its lists, and when each folder of images was changed."""
    places = [*(folder / part for part in PARTS), *folder.glob("train/*/images"), folder / ANNOTATIONS, folder / "val/images"]
    found = [(place, place.stat()) for place in sorted(set(places)) if place.exists()]
    return [f"{place} {stat.st_size} {stat.st_mtime_ns}" for place, stat in found]


def read(source: Source, path: Path) -> tuple[int, Split, Split]:
    """The number of classes, the training and the test split.

    Args:
        path: The zip, or the folder.
    """
    with opened_members(path) as archive:
        names = archive.names
        prefix = next((name.removesuffix(ANNOTATIONS) for name in names if name.endswith(ANNOTATIONS)), None)
        if prefix is None:
            raise DataError(f"{path} holds no {ANNOTATIONS}: it is not Tiny ImageNet's archive, {source.remedy}")
        train = _train_members(path, names, prefix)
        order = _class_order(archive, path, prefix, set(train))
        number = {wnid: index for index, wnid in enumerate(order)}
        training = [(name, number[wnid]) for wnid in order for name in sorted(train[wnid])]
        test = _test_members(archive, path, names, prefix, number)
        for kind, members, most in (("training", training, source.train), ("validation", test, source.test)):
            if len(members) > most:
                raise DataError(f"{path} holds {len(members)} {kind} images, {most} were published: {source.remedy}")
        with bar("decoding tinyimagenet", len(training) + len(test)) as show:
            train_split = _decode(source, archive, path, training, show)
            test_split = _decode(source, archive, path, test, lambda done: show(len(training) + done))
    return len(order), train_split, test_split


def _train_members(path: Path, names: list[str], prefix: str) -> dict[str, list[str]]:
    train = defaultdict(list)
    for name in names:
        parts = name.removeprefix(prefix).split("/")
        if name.startswith(prefix) and len(parts) == 4 and parts[0] == "train" and parts[2] == "images" and parts[3]:
            train[parts[1]].append(name)
    if not train:
        raise DataError(f"{path} holds no images in {prefix}train/<class>/images/: it is not Tiny ImageNet's archive")
    return train


def _class_order(archive: Members, path: Path, prefix: str, present: set[str]) -> list[str]:
    if f"{prefix}wnids.txt" not in archive.names:
        return sorted(present)
    listed = list(dict.fromkeys(_text(archive, f"{prefix}wnids.txt").split()))
    unlisted = present.difference(listed)
    if unlisted:
        raise DataError(f"{path} holds training images of class {min(unlisted)}, which wnids.txt does not list")
    return [wnid for wnid in listed if wnid in present]


def _test_members(archive: Members, path: Path, names: list[str], prefix: str, number: dict[str, int]) -> list[tuple[str, int]]:
    folder = f"{prefix}val/images/"
    left = {name for name in names if name.startswith(folder) and name != folder}
    members = []
    for index, line in enumerate(_text(archive, prefix + ANNOTATIONS).splitlines(), 1):
        image, wnid = (*line.split("\t"), "")[:2]
        if wnid not in number:
            raise DataError(f"{path} has class {wnid!r} in line {index} of {ANNOTATIONS}, but no training images of it")
        if folder + image not in left:
            raise DataError(f"{path} holds no val/images/{image}, or {ANNOTATIONS} names it twice (line {index})")
        left.remove(folder + image)
        members.append((folder + image, number[wnid]))
    if left or not members:
        unlabelled = f"no label for {min(left)}" if left else "no labels"
        raise DataError(f"{path} has {unlabelled} in {ANNOTATIONS}: delete it and download it again")
    return members


def _text(archive: Members, name: str) -> str:
    return archive.read(name, TEXT_LIMIT).decode("utf-8", "replace")


def _decode(source: Source, archive: Members, path: Path, members: list[tuple[str, int]], show: Callable[[int], None]) -> Split:
    channels, height, width = source.shape
    images = np.empty((len(members), *source.shape), np.uint8)
    for index, (name, _) in enumerate(members):
        where = f"{name} in {path}"
        with opened(where, archive.read(name, IMAGE_LIMIT)) as image:
            if image.size != (width, height):
                raise DataError(
                    f"{where} has {image.size[0]}x{image.size[1]} pixels instead of {width}x{height}: {source.remedy}"
                )
            images[index] = planes(image, channels)
        show(index + 1)
    return Split(torch.from_numpy(images), torch.tensor([label for _, label in members]))


def _files(place: Path) -> Iterator[Path]:
    """A file itself, or the files below a folder."""
    if place.is_file():
        yield place
    elif place.is_dir():
        yield from (path for path in sorted(place.rglob("*")) if not path.name.startswith(".") and path.is_file())


def _read_file(path: Path, limit: int) -> bytes:
    try:
        if path.stat().st_size > limit:
            raise DataError(f"{path} has {path.stat().st_size} bytes, more than the {limit} expected there")
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error}): check the file and its permissions") from error
