"""Curvature: by hand, and against autograd's own Hessian and scipy."""

import numpy as np
import pytest
import scipy.sparse.linalg
import torch
import torch.nn.functional as F
from torch import nn

import swr
from nets import cnn_bn, inputs_of, make
from swr.diagnostics import curvature, undisturbed

from .quadratic_helpers import Quadratic, identity_loss


def symmetric(eigenvalues, seed=0):
    torch.manual_seed(seed)
    basis = torch.linalg.qr(torch.randn(len(eigenvalues), len(eigenvalues), dtype=torch.float64)).Q
    return basis @ torch.diag(torch.tensor(eigenvalues, dtype=torch.float64)) @ basis.T


@pytest.mark.parametrize(
    "eigenvalues",
    [
        [5.0, 2.0, 1.0, -1.0],
        [-5.0, 2.0, 1.0, -1.0],  # the largest in magnitude is negative
        [3.0, 1.0, -3.0],  # both ends alike
        [-1.0, -2.0, -4.0],  # all negative
        [2.0, 2.0, 0.0, 0.0],
        [0.0, 0.0],
    ],
)
def test_curvature_is_the_largest_eigenvalue_not_the_largest_in_magnitude(eigenvalues):
    model = Quadratic(symmetric(eigenvalues))
    found = curvature(model, (torch.zeros(1), None), identity_loss, iterations=500, tolerance=1e-6)
    assert found == pytest.approx(max(eigenvalues), abs=1e-6)


def full_hessian(model, x, y, loss_fn):
    names = [name for name, _ in model.named_parameters()]
    shapes = [p.shape for p in model.parameters()]
    sizes = [p.numel() for p in model.parameters()]

    def loss(flat):
        parts = [part.view(shape) for part, shape in zip(flat.split(sizes), shapes, strict=True)]
        return loss_fn(torch.func.functional_call(model, dict(zip(names, parts, strict=True)), (x,)), y)

    flat = torch.cat([p.detach().flatten() for p in model.parameters()])
    return torch.autograd.functional.hessian(loss, flat).numpy()


def tiny():
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 3))


@pytest.mark.parametrize("seed", [0, 1])
def test_curvature_of_a_network_agrees_with_autograds_hessian_and_scipy(seed):
    model = make(tiny, seed)
    x, y = torch.randn(20, 3, dtype=torch.float64), torch.randint(3, (20,))
    hessian = full_hessian(model, x, y, F.cross_entropy)
    found = curvature(model, (x, y), F.cross_entropy, iterations=500, tolerance=1e-6)
    assert found == pytest.approx(np.linalg.eigvalsh(hessian)[-1], rel=1e-5)
    assert found == pytest.approx(scipy.sparse.linalg.eigsh(hessian, k=1, which="LA", return_eigenvectors=False)[0], rel=1e-5)


def test_curvature_sees_batch_norm_in_evaluation_and_frozen_parameters_not_at_all():
    model = make(cnn_bn)
    x, y = inputs_of(model), torch.randint(4, (8,))
    for name, p in model.named_parameters():
        p.requires_grad_(name.startswith("11"))
    torch.manual_seed(3)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    found = curvature(model, (x, y), F.cross_entropy, tolerance=1e-6)
    assert model.training
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    with undisturbed(model):
        head, read = model[11], model[:11](x).detach()
    hessian = full_hessian(head, read, y, F.cross_entropy)
    assert found == pytest.approx(np.linalg.eigvalsh(hessian)[-1], rel=1e-4)


def test_curvature_passes_through_attention():
    torch.manual_seed(0)
    model = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True, activation="gelu").double()
    batch = torch.randn(2, 3, 4, dtype=torch.float64), torch.zeros(2, 3, 4, dtype=torch.float64)
    assert curvature(model, batch, F.mse_loss) > 0


def test_a_loss_that_does_not_bend_has_no_curvature():
    model = nn.Linear(2, 1, bias=False)
    assert curvature(model, (torch.ones(3, 2), None), lambda outputs, _: outputs.mean()) == 0
    frozen = nn.Linear(2, 1).requires_grad_(False)
    with pytest.raises(swr.ModelError, match="no parameter"):
        curvature(frozen, (torch.ones(3, 2), None), lambda outputs, _: outputs.mean())
