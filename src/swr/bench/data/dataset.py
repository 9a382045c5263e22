"""What a dataset is: two splits of uint8 images with integer labels, and the statistics to normalise them with."""

from dataclasses import dataclass

import torch
from torch import Tensor

from swr.errors import SWRError


class DataError(SWRError):
    """A dataset is unknown, missing, or its files are not what they should be."""


@dataclass(frozen=True, eq=False)
class Split:
    """Images and their labels, all in memory.

    A batch is ``split.images.index_select(0, index)``: for uint8 far faster than ``[index]``.

    >>> split = Split(torch.zeros(5, 1, 8, 8, dtype=torch.uint8), torch.arange(5))
    >>> len(split)
    5
    """

    images: Tensor
    """uint8, [N, C, H, W]; possibly a private memory map of the cache file"""
    labels: Tensor
    """int64, [N]"""

    def __post_init__(self) -> None:
        if self.images.dtype != torch.uint8 or self.images.dim() != 4:
            found = f"{self.images.dtype} {list(self.images.shape)}"
            raise DataError(f"images must be a uint8 tensor [N, C, H, W], found {found}: convert them first")
        if self.labels.dtype != torch.int64 or self.labels.shape != self.images.shape[:1]:
            found = f"{self.labels.dtype} {list(self.labels.shape)}"
            raise DataError(f"labels must be an int64 tensor [{len(self.images)}], one per image, found {found}")

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, eq=False)
class Dataset:
    """A training and a test split, with the per-channel statistics of the *training* images.

    With x the training images divided by 255 and the average taken over images and pixels,

        mean_c = E[x_c],    std_c = sqrt(E[x_c²] - mean_c²).

    A constant channel has std 1, so that normalising it gives 0 and not a division by zero.
    """

    name: str
    """as it was asked for: ``mnist``, ``folder:PATH``, …"""
    classes: int
    """labels are 0 … classes - 1"""
    train: Split
    test: Split
    mean: tuple[float, ...]
    std: tuple[float, ...]


def moments(images: Tensor) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation per channel of uint8 images, in the [0, 1] scale.

    Exact up to the last division: the sums are integers, taken over the histogram h of the 256 possible values,

        E[x] = Σ_v h_v v / (255 n),    E[x²] = Σ_v h_v v² / (255² n).

    >>> moments(torch.tensor([0, 255], dtype=torch.uint8).reshape(2, 1, 1, 1))
    ((0.5,), (0.5,))

    Args:
        images: uint8, [N, C, H, W], at least one image.
    """
    channels = images.shape[1]
    histogram = torch.zeros(channels, 256, dtype=torch.int64)
    for chunk in torch.split(images, 4096):  # bounds the memory of the copy that each channel needs
        for channel in range(channels):
            histogram[channel] += torch.bincount(chunk[:, channel].reshape(-1), minlength=256)
    value = torch.arange(256)
    count = images.numel() // channels
    means, stds = [], []
    for row in histogram:
        total, squares = int((row * value).sum()), int((row * value * value).sum())
        means.append(total / (255 * count))
        variance = (squares * count - total * total) / (255 * count) ** 2  # the numerator is exact in Python's integers
        stds.append(variance**0.5 if variance > 0 else 1.0)
    return tuple(means), tuple(stds)
