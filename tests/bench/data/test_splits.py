"""Noisy labels, and a part held out."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from swr.bench.data import Split, hold_out, with_label_noise
from swr.errors import OptionError


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def numbered(count, classes=10):
    """Images that carry their own index."""
    images = torch.arange(count).to(torch.uint8).view(-1, 1, 1, 1).expand(-1, 1, 2, 2)
    return Split(images.contiguous(), torch.arange(count) % classes)


@given(st.integers(0, 60), st.floats(0, 1), st.integers(0, 2**63 - 1))
def test_noise_permutes_the_labels_of_a_fraction(count, fraction, seed):
    split = numbered(count)
    noisy = with_label_noise(split, fraction, seeded(seed))
    assert noisy.images is split.images
    assert sorted(noisy.labels.tolist()) == sorted(split.labels.tolist())
    assert (noisy.labels != split.labels).sum() <= round(fraction * count)
    assert torch.equal(split.labels, torch.arange(count) % 10)
    assert torch.equal(noisy.labels, with_label_noise(split, fraction, seeded(seed)).labels)


def test_noise_makes_about_the_documented_share_of_labels_wrong():
    split = Split(torch.zeros(20_000, 1, 1, 1, dtype=torch.uint8), torch.arange(20_000) % 10)
    wrong = (with_label_noise(split, 0.3, seeded()).labels != split.labels).double().mean().item()
    assert abs(wrong - 0.3 * 0.9) < 0.01
    assert not torch.equal(with_label_noise(split, 0.3, seeded(1)).labels, with_label_noise(split, 0.3, seeded()).labels)


@given(st.integers(2, 60), st.floats(0, 1, exclude_min=True, exclude_max=True), st.integers(0, 2**63 - 1))
def test_holding_out_divides_the_examples(count, fraction, seed):
    split = numbered(count)
    train, validation = hold_out(split, fraction, seeded(seed))
    assert len(validation) == min(max(round(fraction * count), 1), count - 1)
    indices = [part.images[:, 0, 0, 0].tolist() for part in (train, validation)]
    assert sorted(indices[0] + indices[1]) == list(range(count))
    assert all(index == sorted(index) for index in indices)
    for part in (train, validation):
        assert torch.equal(part.labels, part.images[:, 0, 0, 0].long() % 10)


@pytest.mark.parametrize("fraction", [-0.1, 1.1, float("nan")])
def test_a_fraction_out_of_range_is_refused(fraction):
    with pytest.raises(OptionError, match=r"label-noise fraction must be in \[0, 1\], found"):
        with_label_noise(numbered(5), fraction, seeded())
    with pytest.raises(OptionError, match="validation fraction must be between 0 and 1, found"):
        hold_out(numbered(5), fraction, seeded())


def test_a_split_too_small_to_divide_is_refused():
    with pytest.raises(OptionError, match="a split of 1 examples cannot be divided"):
        hold_out(numbered(1), 0.5, seeded())
