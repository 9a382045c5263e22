"""The Lipschitz projection bounds the operator norm of every layer."""

from math import inf

import numpy as np
import pytest
import torch
from torch import nn

from swr import methods
from swr.errors import InputsError
from swr.methods.lipschitz_projection import operator_norm

from .methods_table import MODELS
from .projection_helpers import CONVOLUTIONS, double, grow, matrix_of, with_weight


def test_operator_norms_of_a_small_matrix():
    layer = with_weight([[1.0, -3.0], [2.0, 0.0]])
    blocks = layer.weight.detach()[None]
    assert operator_norm(blocks, inf).item() == 4
    assert operator_norm(blocks, 1).item() == 3
    method = methods.Lipschitz(layer, bound=100.0)
    assert method._power.norms(method._maps()).item() == pytest.approx(3.2566, abs=1e-4)


@pytest.mark.parametrize(("bound", "factor"), [(2.0, 0.5), (5.0, 1.0)])
def test_a_layer_beyond_its_bound_is_scaled_down_and_one_within_stays(bound: float, factor: float):
    layer = with_weight([[1.0, -3.0], [2.0, 0.0]])
    methods.Lipschitz(layer, bound=bound, p=inf).step()
    assert torch.equal(layer.weight, factor * torch.tensor([[1.0, -3.0], [2.0, 0.0]]))


@pytest.mark.parametrize("p", [1, inf])
def test_norms_of_one_and_infinity_are_numpys_for_linear_layers(p: float):
    layer = nn.Linear(7, 5).double()
    assert operator_norm(layer.weight.detach()[None], p).item() == pytest.approx(
        np.linalg.norm(layer.weight.detach().numpy(), p)
    )


@pytest.mark.parametrize("kind", CONVOLUTIONS)
def test_a_convolution_is_projected_by_the_norm_of_its_operator(kind: str):
    torch.manual_seed(0)
    build, shape = CONVOLUTIONS[kind]
    layer = build().double()
    method = methods.Lipschitz(layer, torch.randn(2, *shape, dtype=torch.float64), bound=0.25)
    before = layer.weight.detach().clone()
    assert torch.linalg.matrix_norm(matrix_of(layer, shape), 2) > 0.3
    for _ in range(300):
        method.step()
    assert torch.linalg.matrix_norm(matrix_of(layer, shape), 2).item() == pytest.approx(0.25, rel=1e-4)
    torch.testing.assert_close(layer.weight / layer.weight.norm(), before / before.norm())


@pytest.mark.parametrize("p", [1, 2, inf])
def test_bounds_hold_for_every_kind_of_layer(p: float):
    model, shape = double("cnnbn"), MODELS["cnnbn"][1]
    method = methods.Lipschitz(
        model, torch.zeros(2, *shape, dtype=torch.float64), p=p, convolution=0.5, linear=0.4, normalisation=0.3
    )
    grow(model)
    model[1].running_var.fill_(4.0)
    for _ in range(1 if p != 2 else 200):
        method.step()
    for layer, bound in ((model[0], 0.5), (model[9], 0.4), (model[11], 0.4)):
        if p == 2:
            norm = (
                torch.linalg.matrix_norm(layer.weight, 2)
                if isinstance(layer, nn.Linear)
                else torch.linalg.matrix_norm(matrix_of(layer, shape), 2)
            )
        else:
            sums = layer.weight.abs().reshape(*layer.weight.shape[:2], -1).sum(2)
            norm = sums.sum(1 if p == inf else 0).max()
        assert norm.item() == pytest.approx(bound, rel=1e-3)
    for layer in (model[1], model[5]):
        slope = layer.weight.abs() / (layer.running_var + layer.eps).sqrt()
        assert slope.max().item() == pytest.approx(0.3)


def test_a_convolution_that_never_runs_is_bounded_as_a_matrix():
    class Idle(nn.Linear):
        def __init__(self) -> None:
            super().__init__(4, 4)
            self.idle = nn.Conv2d(4, 4, 3)

    model = Idle()
    method = methods.Lipschitz(model, torch.randn(2, 4), bound=0.25)
    for _ in range(100):
        method.step()
    for weight in (model.weight, model.idle.weight.flatten(1)):
        assert torch.linalg.matrix_norm(weight, 2).item() == pytest.approx(0.25, rel=1e-2)


def test_without_inputs_the_norm_of_a_convolution_is_not_guessed():
    with pytest.raises(InputsError, match="pass example_inputs"):
        methods.Lipschitz(nn.Conv2d(1, 1, 3))
    methods.Lipschitz(nn.Conv2d(1, 1, 3), p=inf).step()
    methods.Lipschitz(nn.Linear(2, 2)).step()
