"""The inputs of the bit-flipping stream: 20 bits. The stream generates them; the zeros here only give their shape."""

import torch

from swr.bench.data.dataset import Dataset, Split

NAME = "bits"
WIDTH = 20


def read() -> Dataset:
    """Rows of bits as images of one line; one output instead of classes."""
    split = Split(torch.zeros(2, 1, 1, WIDTH, dtype=torch.uint8), torch.zeros(2, dtype=torch.int64))
    return Dataset(NAME, 1, split, split, (0.0,), (1.0,))
