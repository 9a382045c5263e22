"""Ranks of features: values by hand, against numpy, and which features are taken."""

import numpy as np
import pytest
import torch
from torch import nn

import swr
from nets import cnn, inputs_of, make
from swr.diagnostics import effective_rank, feature_ranks, features, srank, stable_rank


def by_numpy(matrix):
    sigma = np.linalg.svd(matrix.numpy(), compute_uv=False)
    p = sigma[sigma > 0] / sigma.sum()
    k = next(k for k in range(1, len(sigma) + 1) if sigma[:k].sum() >= 0.99 * sigma.sum())
    return np.exp(-(p * np.log(p)).sum()), k, (sigma**2).sum() / sigma[0] ** 2


def test_ranks_agree_with_numpy():
    torch.manual_seed(0)
    for scale in (0.5, 0.9, 1.0):
        matrix = torch.randn(30, 20, dtype=torch.float64) * scale ** torch.arange(20)
        assert (effective_rank(matrix), srank(matrix), stable_rank(matrix)) == pytest.approx(by_numpy(matrix))


def test_ranks_by_hand():
    """Singular values 2, 1, 1: p = 1/2, 1/4, 1/4, entropy 3/2 log 2."""
    matrix = torch.diag(torch.tensor([1.0, 2.0, 1.0]))
    assert effective_rank(matrix) == pytest.approx(2**1.5)
    assert stable_rank(matrix) == pytest.approx(6 / 4)
    assert [srank(matrix, delta) for delta in (0.01, 0.25, 0.5)] == [3, 2, 1]


def test_ranks_of_nothing_are_zero():
    assert (effective_rank(torch.zeros(3, 2)), srank(torch.zeros(3, 2)), stable_rank(torch.zeros(3, 2))) == (0, 0, 0)


def test_penultimate_features_are_what_the_head_reads():
    model = make(cnn)
    x = inputs_of(model)
    with torch.no_grad():
        expected = model[:-1](x)
    torch.testing.assert_close(features(model, x), expected)
    torch.testing.assert_close(features(model, x, "8"), expected)
    assert features(model, x, "1").shape == (8, 4 * 12 * 12)
    ranks = feature_ranks(model, x)
    assert (ranks.effective, ranks.srank, ranks.stable) == pytest.approx(by_numpy(expected))


def test_every_position_of_a_sequence_is_a_row():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    assert features(model, torch.randn(2, 5, 3)).shape == (10, 4)


def test_wrong_layers_and_matrices_are_refused():
    model = make(cnn)
    with pytest.raises(swr.OptionError, match="no module 'body'"):
        features(model, inputs_of(model), "body")
    with pytest.raises(swr.OptionError, match="3 axes"):
        effective_rank(torch.zeros(2, 2, 2))
    with pytest.raises(swr.OptionError, match="δ"):
        srank(torch.eye(2), delta=1)
    with pytest.raises(swr.ModelError, match="name the layer"):
        features(nn.ReLU(), torch.zeros(2, 2))
