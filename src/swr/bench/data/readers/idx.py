"""MNIST's IDX format: a big-endian header with the number of dimensions and their sizes, then the bytes.

00 00 08 03 | count | rows | columns | pixels …        images
00 00 08 01 | count | labels …                         labels
"""

import math
import struct

import numpy as np
import torch
from numpy.typing import NDArray

from swr.bench.data.archives import Content
from swr.bench.data.dataset import DataError, Split
from swr.bench.data.sources import Source


def read(source: Source, contents: dict[str, Content]) -> tuple[Split, Split]:
    """The training and the test split from the four files, in the order of the table."""
    files = [contents[part.name] for part in source.parts]
    return split_of(source, files[0], files[1]), split_of(source, files[2], files[3])


def split_of(source: Source, images: Content, labels: Content) -> Split:
    """One split from a file of images and its file of labels."""
    pixels, classes = parse(images, 3), parse(labels, 1)
    if len(pixels) != len(classes):
        raise DataError(
            f"{images.where} holds {len(pixels)} images but {labels.where} {len(classes)} labels: "
            "use two files of the same download"
        )
    if pixels.shape[1:] != source.shape[1:]:
        found, expected = ("x".join(map(str, shape[1:])) for shape in (pixels.shape, source.shape))
        raise DataError(f"{images.where} holds images of {found} pixels, expected {expected}: {source.remedy}")
    wrong = np.flatnonzero(classes >= source.classes)
    if wrong.size:
        raise DataError(
            f"{labels.where} has label {classes[wrong[0]]} at index {wrong[0]}, "
            f"the highest is {source.classes - 1}: {source.remedy}"
        )
    return Split(torch.tensor(pixels[:, None]), torch.tensor(classes, dtype=torch.int64))


def parse(content: Content, dimensions: int) -> NDArray[np.uint8]:
    """The array in an IDX file of unsigned bytes.

    >>> parse(Content("labels", bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 9])), 1)
    array([7, 9], dtype=uint8)

    Args:
        dimensions: How many the array must have.
    """
    data, start = content.data, 4 + 4 * dimensions
    magic = bytes([0, 0, 8, dimensions])
    if data[:4] != magic:
        raise DataError(
            f"{content.where} is not an IDX file of {dimensions}-dimensional unsigned bytes, "
            f"it starts with {data[:4].hex(' ') or 'nothing'} instead of {magic.hex(' ')}: check which file it is"
        )
    if len(data) < start:
        raise DataError(f"{content.where} is truncated within its header of {start} bytes: download it again")
    shape = struct.unpack(f">{dimensions}I", data[4:start])
    promised, found = math.prod(shape), len(data) - start
    if promised != found:
        fault = "truncated" if found < promised else "too long"
        raise DataError(
            f"{content.where} is {fault}, its header promises {promised} bytes of data and {found} follow: download it again"
        )
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape)
