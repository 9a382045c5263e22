"""The balanced norms are those of least sum of squares among the rescalings that keep the function."""

import copy
import math
from functools import lru_cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import swr
from nets import cnn, cnn_bn, inputs_of, layer_norm_mlp, make, mlp
from swr.algebra.blocks import tensor_of
from swr.norms import frobenius_norms
from swr.rescaling.balanced import balanced


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.a, self.b, self.head = (nn.Linear(12, 16), nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 4))

    def forward(self, x):
        h = self.stem(x)
        return self.head(h + self.b(torch.relu(self.a(h))))


def transformer():
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
    return nn.Sequential(nn.Linear(12, 16), nn.Unflatten(0, (2, 4)), layer, nn.LayerNorm(16), nn.Linear(16, 4))


NETWORKS = {"mlp": mlp, "cnn": cnn, "cnn_bn": cnn_bn, "layer norm": layer_norm_mlp, "residual": Residual, "vit": transformer}


@lru_cache
def plan_and_norms(name):
    model = make(NETWORKS[name])
    plan = swr.analyze(model, inputs_of(model))
    parameters = dict(model.named_parameters())
    found = frobenius_norms([tensor_of(n, parameters).detach() for n in plan.weights]).tolist()
    return model, plan, dict(zip(plan.weights, found, strict=True))


def test_a_chain_gets_equal_norms_their_geometric_mean():
    _, plan, norms = plan_and_norms("mlp")
    found = balanced(plan, norms)
    mean = math.exp(sum(map(math.log, norms.values())) / len(norms))
    assert min(norms.values()) < 0.8 * mean
    assert found == pytest.approx(dict.fromkeys(norms, mean), rel=1e-9)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_rescale_to_the_balanced_norms_keeps_the_function(name):
    model, plan, norms = plan_and_norms(name)
    moved, found = copy.deepcopy(model), balanced(plan, norms)
    assert found != norms
    x = inputs_of(model)
    constant = swr.rescale(moved, plan.keeping_output(), {n: found[n] / norms[n] for n in norms})
    assert constant == pytest.approx(1.0, abs=1e-9)
    parameters = dict(moved.named_parameters())
    for n, norm in found.items():
        assert float(tensor_of(n, parameters).detach().norm()) == pytest.approx(norm, rel=1e-9), "every norm is reached"
    torch.testing.assert_close(moved(x), model(x), rtol=1e-3, atol=1e-6)  # the epsilons of normalisation layers


@pytest.mark.parametrize("name", NETWORKS)
@given(seed=st.integers(0, 2**31))
@settings(max_examples=30, deadline=None)
def test_no_other_rescaling_that_keeps_the_function_has_a_smaller_sum_of_squares(name, seed):
    _, plan, norms = plan_and_norms(name)
    found = balanced(plan, norms)
    kept = {n for n in norms if found[n] == norms[n]}  # forgotten by a normalisation layer, or alone: compared as they are
    targets = torch.randn(len(plan.weights), dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    targets[[i for i, n in enumerate(plan.weights) if n in kept]] = 0
    theta = dict(zip(plan.weights, (plan.keeping_output().solution.projection @ targets).tolist(), strict=True))
    if any(abs(theta[n]) > 1e-9 for n in kept):  # this direction moves them too
        theta = dict.fromkeys(theta, 0.0)
    least = sum(norm**2 for norm in found.values())
    for size in (0.01, 0.3, 1.0):
        other = sum((found[n] * math.exp(size * theta[n])) ** 2 for n in found)
        assert other >= least * (1 - 1e-9)


def test_weights_that_a_normalisation_layer_forgets_keep_their_norm():
    _, plan, norms = plan_and_norms("cnn_bn")
    found = balanced(plan, norms)
    assert {n for n in norms if found[n] == norms[n]} == {"0.weight", "1.weight", "4.weight"}
    assert found["5.weight"] == pytest.approx(found["9.weight"]) == pytest.approx(found["11.weight"])


def test_a_weight_that_is_zero_balances_nothing():
    _, plan, norms = plan_and_norms("mlp")
    found = balanced(plan, {**norms, "2.weight": 0.0})
    assert found["2.weight"] == 0
    assert found["0.weight"] == pytest.approx(math.sqrt(norms["0.weight"] * norms["4.weight"]))


def test_norms_of_any_size_are_balanced():
    _, plan, norms = plan_and_norms("mlp")
    found = balanced(plan, {"0.weight": 1e-6, "2.weight": 1e6, "4.weight": 1.0})
    assert found == pytest.approx(dict.fromkeys(norms, 1.0), rel=1e-6)
