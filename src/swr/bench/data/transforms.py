"""What is done to splits and batches: normalising, noisy labels, a validation part."""

import torch
from torch import Generator, Tensor

from swr.bench.data.dataset import DataError, Dataset, Split
from swr.errors import OptionError


def normalise(images: Tensor, dataset: Dataset) -> Tensor:
    """Images as float32, zero mean and unit variance per channel over the training split.

        y_c = (x_c / 255 - mean_c) / std_c

    >>> inputs = normalise(dataset.train.images.index_select(0, index), dataset)

    images: uint8, [..., C, H, W], on any device and in any memory format, which are kept.
    dataset: whose ``mean`` and ``std`` are used.
    """
    channels = len(dataset.mean)
    if images.dtype != torch.uint8 or images.dim() < 3 or images.shape[-3] != channels:
        raise DataError(
            f"normalise wants uint8 images [..., {channels}, H, W] for {dataset.name}, "
            f"found {images.dtype} {list(images.shape)}: pass them as the dataset holds them"
        )
    scale = torch.tensor([1 / (255 * std) for std in dataset.std], dtype=torch.float32)
    shift = torch.tensor([mean / std for mean, std in zip(dataset.mean, dataset.std, strict=True)], dtype=torch.float32)
    scale, shift = (value.to(images.device).view(-1, 1, 1) for value in (scale, shift))
    return images.float().mul_(scale).sub_(shift)  # uint8 times float32 would leave the vectorised path


def with_label_noise(split: Split, fraction: float, generator: Generator) -> Split:
    """The split with a random part of its labels shuffled among themselves.

    m = round(fraction * N) positions are drawn without replacement; their labels are permuted uniformly at random
    within these m positions. The class histogram stays as it was. A label may fall on its own value again: with K
    balanced classes, about fraction * (1 - 1/K) of all labels end up wrong.

    >>> noisy = with_label_noise(dataset.train, 0.3, torch.Generator().manual_seed(0))

    fraction: in [0, 1].
    generator: on the CPU; the only source of randomness.
    """
    _check_fraction(fraction, "label-noise fraction", closed=True)
    order = torch.randperm(len(split), generator=generator)
    chosen = order[: round(fraction * len(split))]
    labels = split.labels.clone()
    labels[chosen] = split.labels[chosen[torch.randperm(len(chosen), generator=generator)]]
    return Split(split.images, labels)


def hold_out(split: Split, fraction: float, generator: Generator) -> tuple[Split, Split]:
    """The split divided at random into a training and a validation part, both in the original order.

    The validation part has round(fraction * N) examples, at least one, drawn uniformly without regard to class.

    >>> train, validation = hold_out(dataset.train, 0.1, torch.Generator().manual_seed(0))

    fraction: in (0, 1), of the examples that go into the validation part.
    generator: on the CPU; the only source of randomness.
    """
    _check_fraction(fraction, "validation fraction", closed=False)
    if len(split) < 2:
        raise OptionError(f"a split of {len(split)} examples cannot be divided: it needs at least two")
    count = min(max(round(fraction * len(split)), 1), len(split) - 1)
    order = torch.randperm(len(split), generator=generator)
    validation, train = order[:count].sort().values, order[count:].sort().values
    return _take(split, train), _take(split, validation)


def _take(split: Split, index: Tensor) -> Split:
    return Split(split.images.index_select(0, index), split.labels.index_select(0, index))


def _check_fraction(fraction: float, what: str, *, closed: bool) -> None:
    inside = 0 <= fraction <= 1 if closed else 0 < fraction < 1
    if not inside:  # false for nan too
        raise OptionError(f"the {what} must be {'in [0, 1]' if closed else 'between 0 and 1'}, found {fraction}")
