"""Splits, and the statistics of their images."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from swr.bench.data import DataError, Split
from swr.bench.data.dataset import moments


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
