"""Weight clipping keeps to the bound of the fan-in."""

import copy

import pytest
import torch
from torch import nn

from swr import methods
from swr.methods.tools.layers import affine_layers

from .methods_table import MODELS, Tied, changed
from .projection_helpers import close, grow


def test_clipping_keeps_to_the_bound_of_the_fan_in():
    layer = nn.Linear(4, 3)
    layer.bias.data = torch.tensor([0.7, -0.6, 0.2])
    layer.weight.data[0] = torch.tensor([9.0, -9.0, 0.25, -0.25])
    before = layer.bias.detach().clone()
    methods.WeightClipping(layer, bound=1.0).step()
    close(layer.bias, [0.5, -0.5, 0.2])
    assert (layer.bias != before).float().mean().item() == pytest.approx(2 / 3)
    assert layer.weight[0].tolist() == [0.5, -0.5, 0.25, -0.25]


@pytest.mark.parametrize("network", MODELS)
def test_clipping_at_one_leaves_a_new_network_as_torch_made_it(network: str):
    model = MODELS[network][0]()
    before = copy.deepcopy(model.state_dict())
    method = methods.WeightClipping(model)
    method.step()
    assert not changed(before, model.state_dict())  # gains of 1 included
    grow(model)
    method.step()
    for layer in affine_layers(model):
        bound = layer.weight[0].numel() ** -0.5
        assert layer.weight.abs().max().item() == pytest.approx(bound, rel=1e-6)


def test_clipping_spares_the_head_on_request():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    grow(model, 100.0)
    before = copy.deepcopy(model.state_dict())
    methods.WeightClipping(model, head=False).step()
    assert changed(before, model.state_dict()) == {"0.weight", "0.bias"}


def test_both_biases_after_a_tied_weight_are_clipped():
    model = Tied()
    grow(model, 100.0)
    methods.WeightClipping(model).step()
    assert model.first.bias.abs().max() <= 6**-0.5
    assert model.second.bias.abs().max() <= 6**-0.5
