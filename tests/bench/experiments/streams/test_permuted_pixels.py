"""Permuted pixels."""

from dataclasses import replace

import pytest
import torch
from toy import dataset, shown, stream_config

from swr.bench.training.feed import Feed


def test_every_task_shows_the_pixels_in_a_new_order():
    one = stream_config("permuted-pixels")
    orders = [tuple(shown(one, number).train.pixels.tolist()) for number in range(4)]
    assert len(set(orders)) == 4
    assert all(sorted(order) == list(range(16)) for order in orders)
    assert orders[0] == tuple(shown(one, 0).test.pixels.tolist())
    assert orders[0] != tuple(shown(replace(one, seed=1), 0).train.pixels.tolist())


@pytest.mark.parametrize("channels_last", [False, True])
def test_pixels_move_together_in_all_channels(channels_last: bool):
    data = dataset(channels=3)
    view = shown(stream_config("permuted-pixels"), 1, data).train
    feed = Feed(data.train, data, channels_last=channels_last)
    index = torch.tensor([5, 2])
    plain, labels = feed.batch(index)
    moved, same = view.batch(feed, index)
    assert torch.equal(labels, same)
    assert not torch.equal(plain, moved)
    assert torch.equal(moved.flatten(2), plain.flatten(2)[:, :, view.pixels])
