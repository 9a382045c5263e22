import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from swr.bench.data import DataError, Dataset, Split, hold_out, load, normalise, with_label_noise
from swr.bench.data.dataset import moments
from swr.errors import OptionError


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def numbered(count, classes=10):
    """Images that carry their own index."""
    images = torch.arange(count).to(torch.uint8).view(-1, 1, 1, 1).expand(-1, 1, 2, 2)
    return Split(images.contiguous(), torch.arange(count) % classes)


def test_digits_are_embedded_and_split_in_a_fixed_way():
    dataset = load("digits", download=False)
    assert dataset.classes == 10
    assert dataset.train.images.shape == (1442, 1, 8, 8)
    assert dataset.test.images.shape == (355, 1, 8, 8)
    assert torch.bincount(dataset.test.labels).tolist() == [35, 36, 35, 36, 36, 36, 36, 35, 34, 36]
    assert dataset.train.images.max() == 255
    assert dataset.train.labels[:12].tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1]
    from sklearn.datasets import load_digits

    pixels = load_digits().images
    fifth = np.flatnonzero(load_digits().target == 0)[4]
    assert np.array_equal(dataset.test.images[dataset.test.labels == 0][0, 0].numpy(), np.rint(pixels[fifth] * 255 / 16))


@given(st.integers(1, 3), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_moments_agree_with_numpy(channels, count, seed):
    images = np.random.default_rng(seed).integers(0, 256, (count, channels, 3, 2), dtype=np.uint8)
    mean, std = moments(torch.from_numpy(images))
    scaled = images.astype(np.float64) / 255
    assert np.allclose(mean, scaled.mean((0, 2, 3)), atol=1e-14, rtol=0)
    assert np.allclose(std, scaled.std((0, 2, 3)), atol=1e-14, rtol=0)


def test_a_constant_channel_has_std_one():
    images = torch.full((3, 2, 4, 4), 7, dtype=torch.uint8)
    images[0, 1] = 8
    mean, std = moments(images)
    assert mean[0] == 7 / 255
    assert std[0] == 1.0
    assert 0 < std[1] < 0.1
    dataset = Dataset("flat", 1, *[Split(images, torch.zeros(3, dtype=torch.int64))] * 2, mean, std)
    assert normalise(images, dataset)[:, 0].abs().max() < 1e-6


def test_normalised_training_images_have_zero_mean_and_unit_variance():
    dataset = load("digits")
    inputs = normalise(dataset.train.images, dataset)
    assert inputs.dtype == torch.float32
    assert abs(inputs.double().mean().item()) < 1e-6
    assert abs(inputs.double().std(unbiased=False).item() - 1) < 1e-6
    expected = (dataset.train.images.double() / 255 - dataset.mean[0]) / dataset.std[0]
    assert torch.allclose(inputs.double(), expected, atol=1e-6)


def test_normalise_keeps_the_memory_format():
    images = torch.randint(0, 256, (2, 3, 4, 4), dtype=torch.uint8, generator=seeded())
    split = Split(images, torch.zeros(2, dtype=torch.int64))
    dataset = Dataset("x", 1, split, split, *moments(images))
    last = normalise(images.contiguous(memory_format=torch.channels_last), dataset)
    assert last.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(last, normalise(images, dataset))


@pytest.mark.parametrize("images", [torch.zeros(2, 3, 8, 8, dtype=torch.uint8), torch.zeros(2, 1, 8, 8)])
def test_normalise_refuses_other_images(images):
    with pytest.raises(DataError, match=r"normalise wants uint8 images \[..., 1, H, W\] for digits, found"):
        normalise(images, load("digits"))


@pytest.mark.parametrize(
    ("images", "labels"),
    [
        (torch.zeros(2, 1, 2, 2), torch.zeros(2, dtype=torch.int64)),
        (torch.zeros(2, 2, 2, dtype=torch.uint8), torch.zeros(2, dtype=torch.int64)),
        (torch.zeros(2, 1, 2, 2, dtype=torch.uint8), torch.zeros(3, dtype=torch.int64)),
        (torch.zeros(2, 1, 2, 2, dtype=torch.uint8), torch.zeros(2)),
    ],
)
def test_a_split_of_the_wrong_shape_or_type_cannot_be_made(images, labels):
    with pytest.raises(DataError, match="must be"):
        Split(images, labels)


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
