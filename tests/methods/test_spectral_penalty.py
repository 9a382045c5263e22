"""The spectral norm penalty: power iteration against numpy's singular values."""

import numpy as np
import pytest
import torch
from torch import nn

from swr import methods

from .penalty_helpers import close, linear, moved, svd


def test_spectral_norm_of_a_diagonal_matrix():
    layer = linear([[2.0, 0.0], [0.0, 0.5]])
    method = methods.SpectralNorm(layer, coefficient=0.01)
    penalty = method.penalty()
    penalty.backward()
    close(penalty, 0.02, 1e-6)
    close(layer.weight.grad, [[0.02, 0.0], [0.0, 0.0]], atol=1e-6)


LAYERS = {
    "wide": lambda: nn.Linear(40, 20),
    "tall": lambda: nn.Linear(10, 30),
    "one unit": lambda: nn.Linear(5, 1),
    "convolution": lambda: nn.Conv2d(5, 7, 3),
    "channels last": lambda: nn.Conv2d(5, 7, 3).to(memory_format=torch.channels_last),
    "one dimension": lambda: nn.Conv1d(4, 6, 3),
}


@pytest.mark.parametrize("kind", LAYERS)
def test_power_iteration_finds_the_largest_singular_value_and_its_gradient(kind: str):
    torch.manual_seed(0)
    layer = LAYERS[kind]().double()
    method = methods.SpectralNorm(layer, coefficient=0.3)
    sigma, u, v = svd(layer.weight.flatten(1))
    for _ in range(50):
        penalty = method.penalty()
    close(penalty, 0.3 / 2 * sigma**2, 1e-3)
    assert penalty.item() <= 0.3 / 2 * sigma**2 + 1e-12
    for _ in range(350):
        penalty = method.penalty()
    close(penalty, 0.3 / 2 * sigma**2)
    (gradient,) = torch.autograd.grad(penalty, [layer.weight])
    close(gradient.flatten(1), 0.3 * sigma * np.outer(u, v), atol=1e-6)


def test_power_iteration_follows_weights_that_move_with_one_iteration_a_step():
    torch.manual_seed(0)
    layer = nn.Linear(30, 20).double()
    method = methods.SpectralNorm(layer)
    drift = torch.randn(20, 30, dtype=torch.float64)
    for _ in range(400):
        layer.weight.data.add_(drift, alpha=1e-3)
        method.penalty()
    close(method.norms()[0], svd(layer.weight)[0], 1e-4)


def test_a_transposed_convolution_has_its_outputs_as_rows():
    layer = nn.ConvTranspose2d(4, 6, 3).double()
    method = methods.SpectralNorm(layer)
    for _ in range(80):
        method.penalty()
    close(method.norms()[0], svd(layer.weight.transpose(0, 1).flatten(1))[0], 1e-6)


def test_a_second_look_leaves_the_vectors():
    layer = nn.Linear(6, 5)
    method = methods.SpectralNorm(layer)
    moved(layer)
    before = method.state_dict()["vectors"]
    first, second = method.penalty(update=False), method.penalty(update=False)
    assert first == second
    assert torch.equal(method.state_dict()["vectors"]["weight"], before["weight"])
    method.penalty()
    assert not torch.equal(method.state_dict()["vectors"]["weight"], before["weight"])


def test_a_layer_that_was_zero_for_a_while_is_found_again():
    layer = nn.Linear(6, 5)
    weight = layer.weight.detach().clone()
    layer.weight.data.zero_()
    method = methods.SpectralNorm(layer)
    penalty = method.penalty()
    penalty.backward()
    assert penalty.item() == 0
    assert torch.equal(layer.weight.grad, torch.zeros(5, 6))
    layer.weight.data.copy_(weight)
    for _ in range(60):
        method.penalty()
    close(method.norms()[0], svd(weight)[0], 1e-4)
