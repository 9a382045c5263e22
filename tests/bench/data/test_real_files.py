"""The real files, where ``SWR_DATA`` names a folder that holds them."""

import os
import shutil

import pytest
import torch
from toy import normalise

from swr.bench.data import SOURCES, check, load, status

REAL = os.environ.get("SWR_DATA")
pytestmark = pytest.mark.skipif(not REAL, reason="SWR_DATA is not set")

FACTS = {  # training images, test images, classes, mean, std
    "mnist": (60_000, 10_000, 10, (0.1307,), (0.3081,)),
    "cifar10": (50_000, 10_000, 10, (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
    "cifar100": (50_000, 10_000, 100, (0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)),
}
MNIST_TRAIN = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
MNIST_TEST = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]


@pytest.fixture
def real(request, tmp_path):
    name = request.param
    if not status(name, REAL).files:
        pytest.skip(f"{name} is not in SWR_DATA")
    yield name
    shutil.rmtree(tmp_path / "cache")  # pytest would keep the big files of three runs


@pytest.mark.parametrize("real", FACTS, indirect=True)
def test_the_published_dataset_has_the_published_facts(real):
    train, test, classes, mean, std = FACTS[real]
    dataset = load(real, REAL, download=False)
    again = load(real, REAL, download=False)
    assert torch.equal(dataset.train.images, again.train.images)
    assert dataset.train.images.shape == (train, *SOURCES[real].shape)
    assert dataset.test.images.shape == (test, *SOURCES[real].shape)
    assert dataset.classes == classes
    assert dataset.mean == pytest.approx(mean, abs=5e-5)
    assert dataset.std == pytest.approx(std, abs=5e-5)
    histograms = [torch.bincount(split.labels, minlength=classes).tolist() for split in (dataset.train, dataset.test)]
    if real == "mnist":
        assert histograms == [MNIST_TRAIN, MNIST_TEST]
    else:
        assert histograms == [[train // classes] * classes, [test // classes] * classes]
    result = check(real, REAL)
    assert result.official is True
    assert result.cached is not None


@pytest.mark.parametrize("real", ["tinyimagenet"], indirect=True)
def test_tiny_imagenet_or_a_part_of_it_is_read(real):
    dataset = load(real, REAL, download=False)
    assert dataset.train.images.shape[1:] == (3, 64, 64)
    for split in (dataset.train, dataset.test):
        histogram = torch.bincount(split.labels, minlength=dataset.classes)
        assert len(histogram) == dataset.classes
        assert histogram.unique().numel() == 1  # balanced, in the whole as in the shared part
    assert dataset.mean == pytest.approx((0.48, 0.45, 0.40), abs=0.01)
    inputs = normalise(dataset.train.images[:500], dataset)
    assert inputs.isfinite().all()
    assert check(real, REAL).problem is None


@pytest.mark.parametrize("real", ["mnist"], indirect=True)
def test_the_images_belong_to_their_labels(real):
    """A nearest-mean classifier reaches its well-known .82 on MNIST, which shuffled or shifted labels would not."""
    dataset = load(real, REAL, download=False)
    train, test = (split.images.flatten(1).float() for split in (dataset.train, dataset.test))
    centres = torch.stack([train[dataset.train.labels == k].mean(0) for k in range(10)])
    accuracy = (torch.cdist(test, centres).argmin(1) == dataset.test.labels).float().mean().item()
    assert accuracy == pytest.approx(0.8203, abs=5e-4)
