"""Gradient norm, update ratio, curvature and proportionality: by hand, and against autograd's own Hessian and scipy."""

import numpy as np
import pytest
import scipy.sparse.linalg
import torch
import torch.nn.functional as F
from torch import nn

import swr
from nets import cnn_bn, inputs_of, make, mlp
from swr.diagnostics import (
    curvature,
    gradient_norm,
    gradient_norms,
    proportionality,
    saved_weights,
    undisturbed,
    update_ratios,
)


class Quadratic(nn.Module):
    """L = ½ θᵀ H θ."""

    def __init__(self, hessian):
        super().__init__()
        self.theta = nn.Parameter(torch.ones(len(hessian), dtype=torch.float64))
        self.register_buffer("hessian", hessian)

    def forward(self, x):
        return 0.5 * self.theta @ self.hessian @ self.theta


def identity_loss(outputs, targets):
    return outputs


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


def test_proportionality_by_hand():
    f = torch.tensor([[3.0, 4.0]])
    cases = {(6.0, 8.0): (2, 0), (4.0, -3.0): (0, 1), (-3.0, -4.0): (0, 1), (0.0, 0.0): (0, 0), (7.0, 1.0): (1, np.sqrt(0.5))}
    for g, expected in cases.items():
        found = proportionality(f, torch.tensor([g]))
        assert (found.constant, found.error) == pytest.approx(expected)
    assert proportionality(torch.zeros(1, 2), f).error == 1


def test_a_rescaled_network_is_proportional_and_a_naively_scaled_one_is_not():
    model = make(mlp)
    scaled, naive = make(mlp), make(mlp)
    x = inputs_of(model, 64)
    constant = swr.rescale(scaled, swr.analyze(scaled, x), {"0.weight": 0.5, "2.weight": 3.0})
    for p in naive.parameters():
        p.data *= 0.5
    found = proportionality(model, scaled, x)
    assert found.constant == pytest.approx(constant)
    assert found.error < 1e-14
    assert proportionality(model, naive, x).error > 0.05


def test_outputs_of_other_sizes_and_models_without_inputs_are_refused():
    with pytest.raises(swr.InputsError, match="2 and 3"):
        proportionality(torch.zeros(2), torch.zeros(3))
    with pytest.raises(swr.InputsError, match="inputs"):
        proportionality(nn.Linear(1, 1), nn.Linear(1, 1))


class Restless(nn.Module):
    """Everything that a look may disturb: a counter, a replaced buffer, dropout, random numbers, batch norm, odd modes."""

    def __init__(self):
        super().__init__()
        self.norm, self.drop, self.frozen = nn.BatchNorm1d(3), nn.Dropout(), nn.BatchNorm1d(3).eval()
        self.register_buffer("calls", torch.zeros(1))
        self.register_buffer("last", torch.zeros(3))

    def train(self, mode=True):
        raise AssertionError("the modes are not ours to switch")

    def forward(self, x):
        self.calls += 1
        self.last = x[0]
        return self.frozen(self.norm(x)) + torch.rand(3)


@pytest.mark.parametrize("fails", [False, True])
def test_a_look_leaves_everything_as_it_was(fails):
    model = Restless()
    last, state = model.last, torch.get_rng_state()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    try:
        with undisturbed(model):
            assert not any(module.training for module in model.modules())
            model(torch.randn(4, 3))
            assert model.calls == 1
            assert not fails or 1 / 0
    except ZeroDivisionError:
        assert fails
    assert torch.equal(state, torch.get_rng_state())
    assert model.last is last
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert [module.training for module in model.modules()] == [True, True, True, False]
