"""What is done to a split: noisy labels, and a part held out for validation."""

import torch
from torch import Generator, Tensor

from swr.bench.data.dataset import Split
from swr.errors import OptionError


def with_label_noise(split: Split, fraction: float, generator: Generator) -> Split:
    """The split with a random part of its labels shuffled among themselves.

    m = round(fraction * N) positions are drawn without replacement; their labels are permuted uniformly at random
    within these m positions. The class histogram stays as it was. A label may fall on its own value again: with K
    balanced classes, about fraction * (1 - 1/K) of all labels end up wrong.

    >>> noisy = with_label_noise(dataset.train, 0.3, torch.Generator().manual_seed(0))

    Args:
        fraction: In [0, 1].
        generator: On the CPU; the only source of randomness.
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

    Args:
        fraction: In (0, 1), of the examples that go into the validation part.
        generator: On the CPU; the only source of randomness.
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
