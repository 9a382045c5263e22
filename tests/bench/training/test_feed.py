"""Batches from memory."""

import pytest
import torch
from toy import normalise, pictures

from swr.bench.data import Dataset, Split, load
from swr.bench.data.dataset import moments
from swr.bench.training.feed import Feed


@pytest.mark.parametrize("channels_last", [True, False])
@pytest.mark.parametrize("once", [True, False])
def test_batches_are_the_normalised_images_bit_for_bit_however_they_are_kept(once: bool, channels_last: bool):
    data = pictures()
    feed = Feed(data.train, data, channels_last=channels_last, once=once)
    index = torch.tensor([3, 0, 39, 3])
    for reuse in (False, True, True):
        images, labels = feed.batch(index, reuse=reuse)
        assert torch.equal(images, normalise(data.train.images[index], data))
        assert torch.equal(labels, data.train.labels[index])
    layout = torch.channels_last if channels_last else torch.contiguous_format
    assert images.is_contiguous(memory_format=layout)
    chunks = list(feed.chunks(16))
    assert [len(labels) for _, labels in chunks] == [16, 16, 8]
    assert torch.equal(torch.cat([images for images, _ in chunks]), normalise(data.train.images, data))


def test_the_training_images_of_a_feed_have_zero_mean_and_unit_variance():
    data = load("digits")
    images, _ = Feed(data.train, data).batch(torch.arange(len(data.train)))
    assert images.dtype == torch.float32
    assert images.mean().abs() < 1e-5
    assert (images.std() - 1).abs() < 1e-3


def test_a_constant_channel_becomes_zero():
    images = torch.full((3, 2, 4, 4), 7, dtype=torch.uint8)
    images[0, 1] = 8
    split = Split(images, torch.zeros(3, dtype=torch.int64))
    inputs, _ = Feed(split, Dataset("flat", 1, split, split, *moments(images))).batch(torch.arange(3))
    assert inputs[:, 0].abs().max() < 1e-6
    assert inputs[:, 1].abs().max() > 0.1
