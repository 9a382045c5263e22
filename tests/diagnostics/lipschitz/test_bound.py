"""The bound of whole networks: by hand, against pairs of inputs, and what is refused."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import swr
from nets import cnn, cnn_bn, inputs_of, layer_norm_mlp, make, mlp
from swr.diagnostics import lipschitz_bound


class Branches(nn.Module):
    """Sums, differences, concatenation, an extremum, scaling, means, functional activations, a parametrised weight."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 6), nn.utils.parametrizations.weight_norm(nn.Linear(6, 6))
        self.gain = nn.Parameter(torch.tensor([1.0, -3.0, 0.5, 1, 1, 1]))
        self.head = nn.Linear(12, 3)

    def forward(self, x):
        x = x + 0.5 * F.relu(self.a(x))
        y = torch.sub(x, torch.tanh(self.b(x)), alpha=2) * self.gain / 4
        z = torch.maximum(x, y) - x.mean(1, keepdim=True)
        return self.head(torch.cat([z, F.gelu(y)], 1))


NETWORKS = {"mlp": mlp, "cnn": cnn, "cnn with batch norm": cnn_bn, "branches": Branches}


@pytest.mark.parametrize("name", NETWORKS)
def test_no_two_inputs_are_further_apart_at_the_output_than_the_bound_says(name):
    model = make(NETWORKS[name])
    x = torch.randn(3, 6, dtype=torch.float64) if name == "branches" else inputs_of(model)
    for _ in range(3):
        model(torch.randn_like(x) if name == "branches" else inputs_of(model, 32))  # running statistics
    before = {key: value.clone() for key, value in model.state_dict().items()}
    bound = lipschitz_bound(model, x)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert model.training
    model.eval()
    jacobian = torch.autograd.functional.jacobian(lambda v: model(v[None])[0], x[0])
    steepest = torch.linalg.matrix_norm(jacobian.flatten(1), 2).item()
    far = 100 * torch.randn(2, 1, *x.shape[1:], dtype=torch.float64)
    chord = ((model(far[0]) - model(far[1])).norm() / (far[0] - far[1]).norm()).item()
    assert 0 < max(steepest, chord) <= bound.spectral <= bound.frobenius


def test_the_bound_of_a_linear_chain_by_hand():
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2)).double()
    net[0].weight.data = torch.diag(torch.tensor([3.0, 4.0])).double()
    net[2].weight.data = torch.diag(torch.tensor([5.0, 12.0])).double()
    bound = lipschitz_bound(net, torch.zeros(1, 2, dtype=torch.float64))
    assert bound.spectral == pytest.approx(48)
    assert bound.frobenius == pytest.approx(5 * 13)
    assert bound.layers["0.weight"] == pytest.approx((4, 5))


class Product(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(12, 12)

    def forward(self, x):
        return self.a(x) * x


@pytest.mark.parametrize(
    ("build", "named"),
    [
        (layer_norm_mlp, "layer_norm"),
        (Product, "mul"),
        (lambda: nn.Sequential(nn.Linear(12, 3), nn.Softmax(1)), "softmax"),
        (lambda: nn.Sequential(nn.BatchNorm1d(12, track_running_stats=False), nn.Linear(12, 2)), "batch_norm"),
    ],
)
def test_what_has_no_constant_is_refused_by_name(build, named):
    model = make(build)
    with pytest.raises(swr.ModelError, match=named):
        lipschitz_bound(model, torch.zeros(4, 12, dtype=torch.float64))
