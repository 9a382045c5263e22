"""A layer as a linear map: without its bias, with the size of its input."""

import copy

import pytest
import torch
from torch import nn

from swr.methods.tools.layers import affine_layers
from swr.methods.tools.spectral_norms import input_sizes, operator_map

from ..methods_table import MODELS, changed
from ..projection_helpers import CONVOLUTIONS, close, matrix_of


@pytest.mark.parametrize("kind", CONVOLUTIONS)
def test_operator_map_is_the_layer_without_its_bias(kind: str):
    build, shape = CONVOLUTIONS[kind]
    layer = build().double()
    (affine,) = affine_layers(layer)
    found = operator_map(affine, {layer: torch.Size(shape)})
    x, matrix = torch.randn(1, *shape, dtype=torch.float64), matrix_of(layer, shape)
    close(found.apply(x).flatten(), matrix @ x.flatten(), 1e-10, 1e-12)
    close(found.gram(x).flatten(), matrix.T @ matrix @ x.flatten(), 1e-10, 1e-12)


def test_input_sizes_are_seen_without_leaving_a_trace():
    model = MODELS["cnnbn"][0]()
    model.insert(0, nn.Dropout(0.5))
    model[3].eval()
    x = torch.randn(2, 3, 18, 18)
    state, before, modes = torch.get_rng_state(), copy.deepcopy(model.state_dict()), [m.training for m in model.modules()]
    sizes = input_sizes(model, x, affine_layers(model))
    assert {tuple(size) for size in sizes.values()} == {(3, 18, 18), (4, 7, 7)}
    assert torch.equal(torch.get_rng_state(), state)
    assert [m.training for m in model.modules()] == modes
    assert not changed(before, model.state_dict())
    assert not any(m._forward_pre_hooks for m in model.modules())
