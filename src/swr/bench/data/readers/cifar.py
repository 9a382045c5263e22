"""CIFAR's binary version: records of fixed length, label byte(s) first, then three planes of 32x32 pixels.

CIFAR-10 has one label byte; CIFAR-100 two, of which the second, the fine one, is used.
"""

import math

import numpy as np
import torch
from numpy.typing import NDArray

from swr.bench.data.archives import Content
from swr.bench.data.dataset import DataError, Split
from swr.bench.data.sources import Source

COARSE = 20  # CIFAR-100's super-classes


def read(source: Source, contents: dict[str, Content]) -> tuple[Split, Split]:
    """The training and the test split; the last file of the table is the test file."""
    files = [contents[part.name] for part in source.parts]
    return _split(source, files[:-1]), _split(source, files[-1:])


def parse(source: Source, content: Content) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Images [N, 3, 32, 32] and labels [N] of one file.

    Args:
        source: Determines whether there are one or two label bytes, and the highest label.
    """
    limits = (source.classes,) if source.classes <= 10 else (COARSE, source.classes)
    length = len(limits) + math.prod(source.shape)
    if not content.data or len(content.data) % length:
        raise DataError(
            f"{content.where} is truncated or too long, its {len(content.data)} bytes are no whole number of records "
            f"of {length}: {source.remedy}"
        )
    records = np.frombuffer(content.data, np.uint8).reshape(-1, length)
    for column, limit in enumerate(limits):
        wrong = np.flatnonzero(records[:, column] >= limit)
        if wrong.size:
            raise DataError(
                f"{content.where} has label {records[wrong[0], column]} in record {wrong[0]}, "
                f"the highest is {limit - 1}: {source.remedy}"
            )
    return records[:, len(limits) :].reshape(-1, *source.shape), records[:, len(limits) - 1]


def _split(source: Source, files: list[Content]) -> Split:
    images, labels = zip(*(parse(source, content) for content in files), strict=True)
    return Split(
        torch.from_numpy(np.concatenate(images)),
        torch.from_numpy(np.concatenate(labels).astype(np.int64)),
    )
