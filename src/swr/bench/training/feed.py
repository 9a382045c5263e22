"""Batches by index from tensors in memory: one gather, no workers, no extra copies.

Small datasets are normalised once and kept as float32; larger ones stay uint8 and each batch is normalised after it was
gathered (1 % of the CNN's step). Both give the same numbers:

    y = float(x) * (1 / (255 std)) - mean / std
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from swr.bench.data import Dataset, Split
from swr.bench.training.process import in_large_pages

ONCE = 256 * 2**20
"""bytes of float32 up to which a split is normalised once"""


class Feed:
    """A split on a device, ready to be trained on or evaluated.

    >>> feed = Feed(dataset.train, dataset)
    >>> inputs, labels = feed.batch(index)

    Args:
        split: The images and labels.
        dataset: Its mean and standard deviation are used.
        device: Where the tensors are kept.
        channels_last: Return batches in this layout, for convolutional networks.
        once: Normalise everything now; by default up to 256 MiB.
    """

    def __init__(
        self,
        split: Split,
        dataset: Dataset,
        device: torch.device | str = "cpu",
        *,
        channels_last: bool = False,
        once: bool | None = None,
    ) -> None:
        images = split.images.permute(0, 2, 3, 1) if channels_last else split.images
        self._channels_last = channels_last
        self._shape = images.shape[1:]
        self._images = images.reshape(len(images), -1).to(device)
        self._kept: dict[tuple[int, torch.dtype], Tensor] = {}
        self.labels = split.labels.to(device)
        mean, std = (torch.tensor(values, dtype=torch.float64) for values in (dataset.mean, dataset.std))
        self._scale = self._flat(1 / (255 * std), device)
        self._shift = self._flat(mean / std, device)
        self._raw = True
        if 4 * self._images.numel() <= ONCE if once is None else once:
            self._images, self._raw = self._normalised(self._images), False
        self._images = in_large_pages(self._images)

    def __len__(self) -> int:
        return len(self.labels)

    def batch(self, index: Tensor, *, reuse: bool = False) -> tuple[Tensor, Tensor]:
        """Normalised images and labels at these indices.

        Args:
            reuse: Overwrite the images of the previous batch, which must not be needed any more.
        """
        labels = self.labels.index_select(0, index)
        if not reuse:
            return self._ready(self._images.index_select(0, index)), labels
        images = torch.index_select(self._images, 0, index, out=self._buffer(len(index), self._images.dtype))
        if self._raw:
            images = self._buffer(len(index), torch.float32).copy_(images).mul_(self._scale).sub_(self._shift)
        return self._shaped(images), labels

    def chunks(self, size: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Everything in order, in large batches."""
        for images, labels in zip(torch.split(self._images, size), torch.split(self.labels, size), strict=True):
            yield self._ready(images), labels

    def _ready(self, flat: Tensor) -> Tensor:
        return self._shaped(self._normalised(flat) if self._raw else flat)

    def _shaped(self, flat: Tensor) -> Tensor:
        images = flat.view(-1, *self._shape)
        return images.permute(0, 3, 1, 2) if self._channels_last else images

    def _normalised(self, flat: Tensor) -> Tensor:
        return flat.float().mul_(self._scale).sub_(self._shift)

    def _buffer(self, count: int, dtype: torch.dtype) -> Tensor:
        if (count, dtype) not in self._kept:
            self._kept[count, dtype] = torch.empty(count, self._images.shape[1], dtype=dtype, device=self._images.device)
        return self._kept[count, dtype]

    def _flat(self, channels: Tensor, device: torch.device | str) -> Tensor:
        view = channels if self._channels_last else channels.view(-1, 1, 1)
        return view.expand(self._shape).reshape(-1).to(device, torch.float32)
