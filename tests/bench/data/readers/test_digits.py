"""scikit-learn's digits."""

import numpy as np
import torch

from swr.bench.data import load


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
