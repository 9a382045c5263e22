"""The user's own images: ``PATH/train/<class>/*`` and ``PATH/test/<class>/*``, all of one size.

Classes are the sub-folders of ``train``, in alphabetical order. Images may lie deeper than that; files with other
suffixes, and names that start with a dot, are ignored. A link to a folder is followed, one back into itself is an error.
If every image is grey there is one channel, else three.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch

from swr.bench.data.dataset import DataError, Split
from swr.bench.data.progress_bar import bar
from swr.bench.data.readers.image_files import FORMATS, GREY, opened, planes

Labelled = list[tuple[Path, int]]


def listing(root: Path) -> tuple[int, Labelled, Labelled]:
    """The number of classes, then the training and the test files with their labels, sorted."""
    try:
        if not root.is_dir():
            raise DataError(f"{root} is not a folder: name one that holds train/<class>/ and test/<class>/")
        names = _classes(root / "train")
        if len(names) == 1:
            raise DataError(f"{root / 'train'} holds one class only, {names[0]}: there is nothing to tell apart, add another")
        number = {name: index for index, name in enumerate(names)}
        unknown = [name for name in _classes(root / "test") if name not in number]
        if unknown:
            raise DataError(f"{root / 'test' / unknown[0]} is a class without a folder in {root / 'train'}: add one")
        return len(names), _files(root / "train", number), _files(root / "test", number)
    except OSError as error:
        raise DataError(f"{root} cannot be searched ({error}): make it readable") from error


def identity(root: Path) -> list[str]:
    """What the decoded tensors depend on: every image's path, size and time of change."""
    _, train, test = listing(root)
    return [f"{path} {path.stat().st_size} {path.stat().st_mtime_ns}" for path, _ in train + test]


def read(root: Path) -> tuple[int, Split, Split]:
    """The number of classes, the training and the test split."""
    classes, train, test = listing(root)
    files = [path for path, _ in train + test]
    with bar(f"decoding {root.name}", 2 * len(files)) as show:
        shape = _common_shape(files, show)
        images = np.empty((len(files), *shape), np.uint8)
        for index, path in enumerate(files):
            with opened(str(path), path) as image:
                images[index] = planes(image, shape[0])
            show(len(files) + index + 1)
    labels = torch.tensor([label for _, label in train + test])
    pixels, middle = torch.from_numpy(images), len(train)
    return classes, Split(pixels[:middle], labels[:middle]), Split(pixels[middle:], labels[middle:])


def _common_shape(files: list[Path], show: Callable[[int], None]) -> tuple[int, int, int]:
    first, channels = (0, 0), 1
    for index, path in enumerate(files):
        with opened(str(path), path) as image:
            first = first if index else image.size
            if image.size != first:
                sizes = ["{}x{}".format(*size) for size in (first, image.size)]
                raise DataError(f"{files[0]} has {sizes[0]} pixels but {path} {sizes[1]}: scale all images to one size")
            channels = channels if image.mode in GREY else 3
        show(index + 1)
    return channels, first[1], first[0]


def _classes(folder: Path) -> list[str]:
    if not folder.is_dir():
        raise DataError(f"{folder} is missing: put one sub-folder of images per class there")
    names = sorted(path.name for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    if not names:
        raise DataError(f"{folder} is empty: put one sub-folder of images per class there")
    return names


def _files(folder: Path, number: dict[str, int]) -> Labelled:
    found = []
    for name in _classes(folder):
        files = list(_images(folder / name, (folder.parent.resolve(), folder.resolve())))
        if not files:
            raise DataError(f"{folder / name} holds no images ({' '.join(FORMATS)}): add some or remove the folder")
        found += [(path, number[name]) for path in files]
    return found


def _images(folder: Path, above: tuple[Path, ...]) -> Iterator[Path]:
    """The images in a folder and below it, sorted; links to other folders are followed.

    Args:
        above: The folders that led here, without links.
    """
    here = folder.resolve()
    if here in above:
        raise DataError(f"{folder} is a symbolic link back to {here}, whose images would be read again: remove it")
    for path in sorted(folder.iterdir()):
        if path.name.startswith("."):
            continue
        if path.is_dir():
            yield from _images(path, (*above, here))
        elif path.suffix.lower() in FORMATS and path.is_file():
            yield path
