"""Spectral regularisation against the formula written out."""

import pytest
import torch
from torch import nn

from swr import methods

from .penalty_helpers import close, double, linear, moved, svd


def test_spectral_regularisation_of_a_diagonal_matrix_and_a_bias():
    layer = linear([[2.0, 0.0], [0.0, 0.5]], [0.0, 0.0])
    method = methods.Spectral(layer, coefficient=1.0)
    penalty = method.penalty()
    penalty.backward()
    close(penalty, 9.0, 1e-5)
    close(layer.weight.grad, [[24.0, 0.0], [0.0, 0.0]], 1e-4, 1e-3)
    layer.weight.data = torch.eye(2)
    layer.bias.data = torch.tensor([3.0, 4.0])
    close(method.penalty(), 625.0, 1e-5)


@pytest.mark.parametrize("power", [2, 3])
def test_spectral_regularisation_counts_matrices_biases_gains_and_shifts(power: int):
    model = double("cnnbn")
    method = methods.Spectral(model, coefficient=0.1, power=power)
    moved(model)
    for _ in range(150):
        method.penalty()
    literal = 0.0
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            literal += (module.weight - 1).square().sum().item() + module.bias.norm().item() ** (2 * power)
        elif isinstance(module, (nn.Linear, nn.Conv2d)):
            literal += (svd(module.weight.flatten(1))[0] ** power - 1) ** 2 + module.bias.norm().item() ** (2 * power)
    close(method.penalty(), 0.1 * literal, 1e-6)
    (gradient,) = torch.autograd.grad(method.penalty(), [model[1].weight])
    close(gradient, 0.2 * (model[1].weight - 1))


def test_spectral_regularisation_has_a_gradient_at_a_zero_bias():
    layer = linear([[2.0]], [0.0])
    methods.Spectral(layer, coefficient=1.0).penalty().backward()
    assert layer.bias.grad.tolist() == [0.0]
