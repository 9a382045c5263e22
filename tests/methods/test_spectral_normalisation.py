"""Spectral normalisation bounds the named layers, or the last hidden one."""

import copy

import pytest
import torch
from torch import nn

from swr import methods
from swr.errors import OptionError

from .methods_table import MODELS, changed
from .projection_helpers import close, double, matrix_of, with_weight


def test_spectral_normalisation_bounds_the_last_hidden_layer():
    model = nn.Sequential(with_weight([[8.0]]), with_weight([[4.0, 0.0], [0.0, 1.0]]), with_weight([[9.0, 9.0]]))
    before = copy.deepcopy(model.state_dict())
    method = methods.SpectralNormalisation(model, bound=2.0)
    for _ in range(20):
        method.step()
    assert changed(before, model.state_dict()) == {"1.weight"}
    close(model[1].weight, [[2.0, 0.0], [0.0, 0.5]], 1e-5)
    model[1].weight.data.mul_(0.5)
    within = model[1].weight.detach().clone()
    method.step()
    assert torch.equal(model[1].weight, within)


def test_spectral_normalisation_takes_named_layers_and_convolutions_as_operators():
    model, shape = double("cnn"), MODELS["cnn"][1]
    before = copy.deepcopy(model.state_dict())
    method = methods.SpectralNormalisation(model, torch.zeros(2, *shape, dtype=torch.float64), bound=0.5, layers=["0", "7"])
    for _ in range(300):
        method.step()
    assert changed(before, model.state_dict()) == {"0.weight", "7.weight"}
    assert torch.linalg.matrix_norm(matrix_of(model[0], shape), 2).item() == pytest.approx(0.5, rel=1e-3)
    with pytest.raises(OptionError, match=r"names of trained layers \(0, 3, 7, 9\), found 7, 8"):
        methods.SpectralNormalisation(model, torch.zeros(2, *shape), layers=["7", "8"])
