"""A normalised network has a normalisation before every activation, and none at its output."""

import pytest
import torch
from torch import nn

from swr import methods
from swr.errors import ModelError
from swr.methods.tools.layers import affine_layers

from ..methods_table import MODELS
from ..projection_helpers import close


@pytest.mark.parametrize(("network", "kinds"), [("mlp", [nn.LayerNorm] * 2), ("cnn", [nn.GroupNorm] * 2 + [nn.LayerNorm])])
def test_a_normalised_network_does_not_change_under_the_projection_of_hidden_layers(network: str, kinds: list[type]):
    plain, x = MODELS[network][0](), torch.randn(4, *MODELS[network][1], dtype=torch.float64)
    model = methods.normalised(plain, x.float()).double()
    assert [type(m) for m in model.modules() if isinstance(m, (nn.LayerNorm, nn.GroupNorm))] == kinds
    layers = affine_layers(model)
    assert [bool(layer.biases) for layer in layers] == [False] * (len(layers) - 1) + [True]
    assert all(layer.biases for layer in affine_layers(plain))
    method = methods.NaP(model, head=False)
    for i, layer in enumerate(layers[:-1]):
        layer.weight.data.mul_(4 + i)
    before = model(x)
    method.step()
    torch.testing.assert_close(model(x), before, rtol=1e-2, atol=1e-3)  # the epsilon of the normalisation layers
    for layer, other in zip(layers, affine_layers(plain), strict=True):
        close(layer.weight, other.weight, 1e-6)


def test_normalising_respects_what_is_normalised_and_the_output():
    model = nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(8, 1), nn.Sigmoid()
    )
    same = methods.normalised(model, torch.randn(2, 1, 4, 4))
    assert [type(module) for module in same.modules()] == [type(module) for module in model.modules()]
    assert list(same.state_dict()) == list(model.state_dict())


def test_activations_that_cannot_be_told_apart_or_seen_are_said():
    relu = nn.ReLU()
    with pytest.raises(ModelError, match="one ReLU is used at 2 places"):
        methods.normalised(nn.Sequential(nn.Linear(2, 2), relu, nn.Linear(2, 2), relu, nn.Linear(2, 2)), torch.randn(3, 2))
    with pytest.raises(ModelError, match="no activation module"):
        methods.normalised(nn.Sequential(nn.Linear(2, 2)), torch.randn(3, 2))
