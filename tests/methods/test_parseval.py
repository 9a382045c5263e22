"""Parseval against the large product and the known gradient."""

import numpy as np
import pytest
import torch
from torch import nn

from swr import methods
from swr.methods.parseval import parseval

from .penalty_helpers import close, gradients


def test_parseval_of_the_papers_kind_of_matrices():
    assert parseval(torch.tensor([[[1.0, 1.0], [0.0, 2.0]]]), 2.0).item() == 12
    rotation = nn.init.orthogonal_(torch.empty(5, 5), gain=2**0.5)
    assert parseval(rotation[None], 2.0).item() == pytest.approx(0, abs=1e-10)


@pytest.mark.parametrize("shape", [(4, 4), (3, 7), (7, 3), (1, 5)])
def test_parseval_agrees_with_the_large_product_and_the_known_gradient(shape: tuple[int, int]):
    layer = nn.Linear(shape[1], shape[0], bias=False).double()
    method = methods.Parseval(layer, coefficient=0.1, scale=1.5, head=True)
    w = layer.weight.detach().numpy()
    difference = w @ w.T - 1.5 * np.eye(len(w))
    penalty = method.penalty()
    close(penalty, 0.1 * (difference**2).sum())
    (gradient,) = torch.autograd.grad(penalty, [layer.weight])
    close(gradient, 4 * 0.1 * difference @ w)


def test_parseval_spares_the_head_and_takes_groups_apart():
    model = nn.Sequential(nn.Conv2d(4, 6, 3, groups=2), nn.Flatten(), nn.Linear(6, 3))
    value = methods.Parseval(model, coefficient=1.0, scale=2.0).value()
    halves = model[0].weight.detach().flatten(1).split(3)
    close(value, sum((w @ w.T - 2 * torch.eye(3)).square().sum() for w in halves), 1e-5)
    assert gradients(value, model)[2].abs().sum() == 0
    assert methods.Parseval(model, scale=2.0, head=True).value() > value
    assert methods.Parseval(nn.Linear(2, 2)).penalty() is None
