"""The observations of the control tasks: four channels, two actions. The zeros only give their shape."""

import torch

from swr.bench.data.dataset import Dataset, Split

NAME = "cartpole"
CHANNELS, ACTIONS = 4, 2


def read() -> Dataset:
    """An observation as an image of one line; actions in place of classes."""
    split = Split(torch.zeros(2, 1, 1, CHANNELS, dtype=torch.uint8), torch.zeros(2, dtype=torch.int64))
    return Dataset(NAME, ACTIONS, split, split, (0.0,), (1.0,))
