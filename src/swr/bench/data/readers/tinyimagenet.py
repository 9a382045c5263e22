"""Tiny ImageNet, read from the official zip in place.

    train/<wnid>/images/*.JPEG       the class is the folder
    val/images/*.JPEG                the class is in val/val_annotations.txt; these are the test split,
                                     since the official test images have no published labels
    wnids.txt                        the order of the classes

A zip with fewer classes or images than published is read as well; its classes are numbered among those present.
"""

import zipfile
from collections import defaultdict
from collections.abc import Callable
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


def read(source: Source, path: Path) -> tuple[int, Split, Split]:
    """The number of classes, the training and the test split."""
    with open_zip(path) as archive:
        names = archive.namelist()
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


def _class_order(archive: zipfile.ZipFile, path: Path, prefix: str, present: set[str]) -> list[str]:
    if f"{prefix}wnids.txt" not in archive.namelist():
        return sorted(present)
    listed = list(dict.fromkeys(_text(archive, path, f"{prefix}wnids.txt").split()))
    unlisted = present.difference(listed)
    if unlisted:
        raise DataError(f"{path} holds training images of class {min(unlisted)}, which wnids.txt does not list")
    return [wnid for wnid in listed if wnid in present]


def _test_members(
    archive: zipfile.ZipFile, path: Path, names: list[str], prefix: str, number: dict[str, int]
) -> list[tuple[str, int]]:
    folder = f"{prefix}val/images/"
    left = {name for name in names if name.startswith(folder) and name != folder}
    members = []
    for index, line in enumerate(_text(archive, path, prefix + ANNOTATIONS).splitlines(), 1):
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


def _text(archive: zipfile.ZipFile, path: Path, name: str) -> str:
    return read_member(archive, path, name, TEXT_LIMIT).decode("utf-8", "replace")


def _decode(
    source: Source, archive: zipfile.ZipFile, path: Path, members: list[tuple[str, int]], show: Callable[[int], None]
) -> Split:
    channels, height, width = source.shape
    images = np.empty((len(members), *source.shape), np.uint8)
    for index, (name, _) in enumerate(members):
        where = f"{name} in {path}"
        with opened(where, read_member(archive, path, name, IMAGE_LIMIT)) as image:
            if image.size != (width, height):
                raise DataError(
                    f"{where} has {image.size[0]}x{image.size[1]} pixels instead of {width}x{height}: {source.remedy}"
                )
            images[index] = planes(image, channels)
        show(index + 1)
    return Split(torch.from_numpy(images), torch.tensor([label for _, label in members]))
