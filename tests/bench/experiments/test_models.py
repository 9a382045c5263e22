"""The paper's networks, by their numbers."""

import pytest
import torch
from torch import nn

from swr.bench.experiments import models
from swr.errors import OptionError
from swr.methods import UnknownName

COUNTS = {
    ("mlp", (1, 28, 28), 10): 784 * 100 + 100 + 100 * 100 + 100 + 100 * 10 + 10,
    ("cnn", (3, 32, 32), 10): (75 * 16 + 16) + (400 * 16 + 16) + (400 * 100 + 100) + (100 * 10 + 10),
    ("cnn", (3, 32, 32), 100): (75 * 16 + 16) + (400 * 16 + 16) + (400 * 100 + 100) + (100 * 100 + 100),
    ("cnnbn", (3, 32, 32), 100): (75 * 16 + 16) + (400 * 16 + 16) + (400 * 100 + 100) + (100 * 100 + 100) + 2 * 32,
    ("cnnpad", (3, 32, 32), 10): (75 * 16 + 16) + (400 * 16 + 16) + (576 * 100 + 100) + (100 * 10 + 10),
    ("cnnbnpad", (3, 32, 32), 100): 75 * 16 + 400 * 16 + (576 * 100 + 100) + (100 * 100 + 100) + 2 * 32,
}


@pytest.mark.parametrize(("name", "shape", "classes"), COUNTS)
def test_number_of_parameters(name, shape, classes):
    model = models.build(name, shape, classes)
    assert sum(p.numel() for p in model.parameters()) == COUNTS[name, shape, classes]
    assert model(torch.randn(2, *shape)).shape == (2, classes)


def test_vgg16_has_the_published_size_sixteen_layers_and_no_dropout():
    with torch.device("meta"):
        model = models.build("vgg16", (3, 64, 64), 200)
        plain = models.vgg16((3, 64, 64), 200, normalised=False)
    kinds = [type(module) for module in model]
    assert round(sum(p.numel() for p in model.parameters()) / 1e6, 1) == 40.7
    assert round(sum(p.numel() for p in plain.parameters()) / 1e6, 1) == 40.7
    assert (kinds.count(nn.Conv2d), kinds.count(nn.Linear), kinds.count(nn.MaxPool2d)) == (13, 3, 5)
    assert kinds.count(nn.BatchNorm2d) == 13
    assert nn.Dropout not in kinds
    assert [module.out_features for module in model if isinstance(module, nn.Linear)] == [4096, 4096, 200]


def test_thin_vgg16_has_the_same_layers_at_a_quarter_of_the_width():
    with torch.device("meta"):
        wide, thin = (models.build(name, (3, 32, 32), 100) for name in ("vgg16", "vgg16thin"))
    assert [type(module) for module in thin] == [type(module) for module in wide]
    for few, many in zip(list(thin.parameters())[:-2], list(wide.parameters())[:-2], strict=True):
        assert 4 * len(few) == len(many)
    assert round(sum(p.numel() for p in thin.parameters()) / 1e6, 1) == 2.2


def test_the_cnn_pools_behind_each_activation_and_normalises_in_front_of_it():
    kinds = [type(module).__name__ for module in models.build("cnnbn", (3, 32, 32), 10)]
    block = ["Conv2d", "BatchNorm2d", "ReLU", "MaxPool2d"]
    assert kinds == [*block, *block, "Flatten", "Linear", "ReLU", "Linear"]


def test_convolutional_networks_are_channels_last():
    model = models.build("cnn", (3, 32, 32), 10)
    assert model[3].weight.is_contiguous(memory_format=torch.channels_last)


def test_images_that_are_too_small_and_unknown_names_are_said():
    with pytest.raises(OptionError, match="cnn needs images of at least 16x16, found 8x8"):
        models.build("cnn", (1, 8, 8), 10)
    assert models.build("cnn", (1, 16, 16), 10)(torch.zeros(1, 1, 16, 16)).shape == (1, 10)
    with pytest.raises(OptionError, match="vgg16 needs images of at least 32x32"):
        models.build("vgg16", (3, 31, 64), 10)
    with pytest.raises(UnknownName, match="did you mean vgg16"):
        models.build("vgg", (3, 64, 64), 10)
