"""Gradient norms and update ratios: by hand, and against backward."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from nets import inputs_of, make, mlp
from swr.diagnostics import gradient_norm, gradient_norms, saved_weights, update_ratios

from .quadratic_helpers import Quadratic, identity_loss


def test_the_gradient_norm_by_hand():
    model = Quadratic(torch.diag(torch.tensor([3.0, 4.0], dtype=torch.float64)))
    assert gradient_norm(model, (torch.zeros(1), None), identity_loss) == 5
    assert model.theta.grad is None
    model(torch.zeros(1)).backward()
    assert gradient_norms(model) == {"theta": 5}


def test_the_gradient_norm_on_a_batch_is_that_of_backward():
    model = make(mlp)
    x, y = inputs_of(model), torch.randint(4, (8,))
    F.cross_entropy(model(x), y).backward()
    whole = torch.cat([p.grad.flatten() for p in model.parameters()]).norm().item()
    kept = [p.grad.clone() for p in model.parameters()]
    for p in model.parameters():
        p.register_hook(lambda grad: pytest.fail("a hook of the user's ran"))
    assert gradient_norm(model, (x, y), F.cross_entropy) == pytest.approx(whole)
    assert np.hypot.reduce(list(gradient_norms(model).values())) == pytest.approx(whole)
    assert all(torch.equal(p.grad, g) for p, g in zip(model.parameters(), kept, strict=True))


def test_update_ratios_by_hand():
    model = nn.Sequential(nn.Linear(2, 1), nn.Linear(1, 1))
    model[0].weight.data = torch.tensor([[3.0, 4.0]])
    model[1].weight.data.zero_()
    before = saved_weights(model)
    model[0].weight.data += torch.tensor([[0.3, 0.4]])
    model[1].weight.data += 1
    assert update_ratios(model, before) == pytest.approx({"0.weight": 0.1})
