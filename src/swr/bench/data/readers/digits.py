"""scikit-learn's digits: 1,797 images of 8x8, embedded in the package, so that everything can be tried without a download.

The split is fixed: of each class, in the order of the file, every fifth image is a test image (1,442 + 355).
"""

from importlib.metadata import version

import numpy as np
import torch

from swr.bench.data.dataset import Split

CLASSES = 10


def identity() -> list[str]:
    """What the decoded tensors depend on."""
    return ["scikit-learn", version("scikit-learn")]


def read() -> tuple[Split, Split]:
    """The training and the test split; grey levels 0 … 16 become 0 … 255."""
    from sklearn.datasets import load_digits  # two seconds to import: only when there is no cache file yet

    pixels, labels = load_digits(return_X_y=True)
    images = np.rint(pixels * (255 / 16)).astype(np.uint8).reshape(-1, 1, 8, 8)
    rank = np.zeros(len(labels), dtype=np.int64)  # position of each image within its class
    for label in range(CLASSES):
        rank[labels == label] = np.arange((labels == label).sum())
    test = rank % 5 == 4

    def split(chosen: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Split:
        return Split(torch.from_numpy(images[chosen]), torch.from_numpy(labels[chosen].astype(np.int64)))

    return split(~test), split(test)
