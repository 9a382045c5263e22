"""Effective rank: the spread of the singular values, and which features count."""

import copy
import pickle

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from swr import methods
from swr.errors import ModelError, OptionError
from swr.methods.effective_rank import spectral_spread

from .penalty_helpers import close


def test_effective_rank_is_the_spread_of_the_squared_singular_values():
    features = torch.tensor([[3.0, 0.0], [0.0, 1.0], [0.0, 0.0]], requires_grad=True)
    value = spectral_spread(features)
    value.backward()
    assert value.item() == pytest.approx(8)
    close(features.grad, [[6.0, 0.0], [0.0, -2.0], [0.0, 0.0]], atol=1e-6)


@pytest.mark.parametrize("shape", [(20, 7), (7, 20), (1, 5), (5, 1)])
def test_effective_rank_agrees_with_numpy_and_finite_differences(shape: tuple[int, int]):
    features = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    s = np.linalg.svd(features.detach().numpy(), compute_uv=False)
    close(spectral_spread(features), s[0] ** 2 - s[-1] ** 2)
    assert torch.autograd.gradcheck(spectral_spread, [features])


@pytest.mark.parametrize("features", [torch.zeros(4, 3), torch.eye(4), torch.ones(4, 3)])
def test_coinciding_singular_values_have_finite_gradients(features: Tensor):
    features = features.clone().requires_grad_()
    spectral_spread(features).backward()
    assert features.grad.isfinite().all()


def test_the_features_are_what_entered_the_head_in_the_last_training_pass():
    model = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
    method = methods.EffectiveRank(model, coefficient=0.5)
    assert method.penalty() is None
    x = torch.randn(8, 6)
    model(x)
    model.eval()
    model(torch.randn(4, 6))
    model.train()
    with torch.no_grad():
        model(torch.randn(4, 6))
    penalty = method.penalty()
    close(penalty, 0.5 * spectral_spread(model[1](model[0](x))), 1e-5)
    penalty.backward()
    assert model[0].weight.grad.abs().sum() > 0
    assert model[2].weight.grad is None
    assert method.penalty() is None  # one forward pass, one penalty


def test_a_copied_or_pickled_model_does_not_speak_to_the_method():
    model = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
    method = methods.EffectiveRank(model)
    model(torch.randn(8, 6))
    method.penalty()
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        other(torch.randn(8, 6))
        assert method.penalty() is None


def test_features_of_sequences_count_every_position():
    model = nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 3))
    method = methods.EffectiveRank(model, coefficient=1.0, head="1")
    x = torch.randn(2, 4, 6)
    model(x)
    close(method.penalty(), spectral_spread(model[0](x).reshape(8, 5)), 1e-5)


def test_a_head_that_cannot_be_found_is_said():
    with pytest.raises(ModelError, match=r"no nn\.Linear"):
        methods.EffectiveRank(nn.Conv2d(1, 1, 1))
    with pytest.raises(OptionError, match=r"name of an nn\.Linear of the model \(0\), found '1'"):
        methods.EffectiveRank(nn.Sequential(nn.Linear(1, 1), nn.ReLU()), head="1")
