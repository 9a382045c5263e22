"""The l_{p,q} norm and its minimum: by hand, against scipy, against the literal algorithm; functions are kept."""

import copy
import math
from itertools import pairwise

import pytest
import torch
from scipy.optimize import minimize
from torch import nn

from swr import ModelError, OptionError
from swr.diagnostics.balancing import balancing_reference, rebalancing
from swr.diagnostics.balancing.entrywise import entrywise_norm
from swr.diagnostics.balancing.rebalancing import balancedness, minimal_norm, rebalance

ORDERS = [(1, 1), (2, 2), (1, 2), (2, 1)]


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(12, 6), nn.ReLU(), nn.Linear(6, 5), nn.LeakyReLU(), nn.Linear(5, 3)), (3, 2, 2)


def deep():
    layers = [layer for _ in range(6) for layer in (nn.Linear(4, 4), nn.ReLU(), nn.Dropout(0.1))]
    return nn.Sequential(nn.Sequential(*layers), nn.Linear(4, 2), nn.LogSoftmax(1)), (4,)


def cnn():
    first = [nn.Conv2d(2, 4, 3, bias=False), nn.PReLU(4), nn.MaxPool2d(2), nn.Conv2d(4, 3, 2, stride=2), nn.ReLU()]
    return nn.Sequential(*first, nn.AvgPool2d(2), nn.Flatten(), nn.Linear(12, 5), nn.ReLU(), nn.Linear(5, 2)), (2, 20, 20)


def grouped():
    last = [nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(4, 3)]
    return nn.Sequential(nn.Conv1d(4, 6, 3, groups=2), nn.ReLU(), nn.Conv1d(6, 4, 2, groups=2), nn.ReLU(), *last), (4, 9)


def transposed():
    hidden = nn.ConvTranspose2d(4, 6, 2, groups=2)
    return nn.Sequential(nn.ConvTranspose2d(3, 4, 2), nn.ReLU(), hidden, nn.ReLU(), nn.Conv2d(6, 2, 1)), (3, 4, 4)


NETWORKS = [mlp, deep, cnn, grouped, transposed]


def make(build, seed=0):
    """A network with random weights and biases of very unequal size, in float64."""
    torch.manual_seed(seed)
    net, shape = build()
    net.double().eval()
    with torch.no_grad():
        for p in net.parameters():
            if not any(p is m.weight for m in net.modules() if isinstance(m, nn.PReLU)):
                p.copy_(torch.randn_like(p) * torch.randn(p.shape[0], *[1] * (p.ndim - 1)).exp() * torch.rand(()).mul(3).exp())
    return net, torch.randn(5, *shape, dtype=torch.float64)


def layers(net):
    return [m for m in net.modules() if hasattr(m, "weight") and not isinstance(m, nn.PReLU)]


def columns(layer):
    """The weight as a matrix from every single entry of the input to every unit, literally, group by group."""
    weight, groups = layer.weight, getattr(layer, "groups", 1)
    if isinstance(layer, nn.modules.conv._ConvTransposeNd):
        parts = [part.transpose(0, 1) for part in weight.chunk(groups)]
    else:
        parts = list(weight.chunk(groups))
    rows = []
    for g, part in enumerate(parts):
        for row in part:
            cells = [torch.zeros(row[0].numel(), dtype=weight.dtype)] * (len(row) * groups)
            cells[g * len(row) : (g + 1) * len(row)] = [cell.flatten() for cell in row]
            rows.append(torch.stack(cells))
    return torch.stack(rows)  # units x inputs x kernel


def literal_norm(matrices, logs, p, q):
    """‖W‖_{p,q} after every hidden unit was scaled by its own factor."""
    sizes = [len(matrix) for matrix in matrices[:-1]]
    scales = [None, *logs.exp().split(sizes), None]
    total = 0
    for matrix, before, units in zip(matrices, scales[:-1], scales[1:], strict=True):
        if units is not None:
            matrix = matrix * units.view(-1, 1, 1)
        if before is not None:
            matrix = matrix / before.repeat_interleave(matrix.shape[1] // len(before)).view(1, -1, 1)
        total = total + matrix.abs().pow(p).sum((1, 2)).pow(q / p).sum()
    return total ** (1 / q)


@pytest.mark.parametrize(("p", "q"), ORDERS)
@pytest.mark.parametrize("build", NETWORKS)
@pytest.mark.parametrize("seed", [0, 1])
def test_the_minimum_is_the_one_that_scipy_finds(build, p, q, seed):
    net, _ = make(build, seed)
    matrices = [columns(layer).detach() for layer in layers(net)]

    def objective(values):
        logs = torch.tensor(values, requires_grad=True)
        value = literal_norm(matrices, logs, p, q).log()
        value.backward()
        return value.item(), logs.grad.numpy()

    start = torch.zeros(sum(map(len, matrices[:-1])), dtype=torch.float64)
    found = minimize(objective, start.numpy(), jac=True, method="L-BFGS-B", options={"gtol": 1e-9, "ftol": 0, "maxiter": 5000})
    ours = minimal_norm(net, p, q)
    assert ours == pytest.approx(math.exp(found.fun), rel=1e-6)
    assert entrywise_norm(net, p, q) == pytest.approx(literal_norm(matrices, start, p, q).item(), rel=1e-12)
    assert balancedness(net, p, q) == pytest.approx(entrywise_norm(net, p, q) / ours, rel=1e-12)
    assert balancedness(net, p, q) > 1.01


@pytest.mark.parametrize(("p", "q"), [*ORDERS, (1.5, 3), (4, 1)])
@pytest.mark.parametrize("build", NETWORKS)
def test_balancing_keeps_the_function_and_reaches_the_minimum(build, p, q):
    net, x = make(build)
    outputs, least, before = net(x), minimal_norm(net, p, q), copy.deepcopy(net)
    identities = [id(parameter) for parameter in net.parameters()]
    rebalance(net, p, q)
    torch.testing.assert_close(net(x), outputs, rtol=1e-9, atol=1e-9 * outputs.abs().max().item())
    assert entrywise_norm(net, p, q) == pytest.approx(least, rel=1e-9)
    assert balancedness(net, p, q) == pytest.approx(1, abs=1e-9)
    assert [id(parameter) for parameter in net.parameters()] == identities
    for mine, old in zip(layers(net), layers(before), strict=True):
        assert not torch.allclose(mine.weight, old.weight), "nothing was rescaled"


@pytest.mark.parametrize(("p", "q"), ORDERS)
@pytest.mark.parametrize("build", [mlp, deep])
def test_the_literal_algorithm_over_one_matrix_of_all_units_gives_the_same_network(build, p, q):
    net, _ = make(build)
    chain = layers(net)
    sizes = [chain[0].in_features, *(layer.out_features for layer in chain)]
    starts = [sum(sizes[:k]) for k in range(len(sizes))]
    weights = [[0.0] * sum(sizes) for _ in range(sum(sizes))]
    biases = [0.0] * sum(sizes)
    for k, layer in enumerate(chain):
        for i in range(sizes[k + 1]):
            biases[starts[k + 1] + i] = layer.bias[i].item()
            weights[starts[k + 1] + i][starts[k] : starts[k + 1]] = layer.weight[i].tolist()
    assert balancing_reference.entrywise_norm(weights, p, q) == pytest.approx(entrywise_norm(net, p, q))

    balancing_reference.weight_balance(weights, biases, range(starts[1], starts[-1]), p, q)
    assert balancing_reference.entrywise_norm(weights, p, q) == pytest.approx(minimal_norm(net, p, q), rel=1e-9)
    rebalance(net, p, q)
    for k, layer in enumerate(chain):
        block = [weights[starts[k + 1] + i][starts[k] : starts[k + 1]] for i in range(sizes[k + 1])]
        torch.testing.assert_close(layer.weight.detach(), torch.tensor(block, dtype=torch.float64), rtol=1e-5, atol=1e-5)
        theirs = torch.tensor(biases[starts[k + 1] : starts[k + 1] + sizes[k + 1]], dtype=torch.float64)
        torch.testing.assert_close(layer.bias.detach(), theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("p", "q"), [*ORDERS, (3, 1.5), (1, 4)])
@pytest.mark.parametrize("build", NETWORKS)
def test_every_round_lowers_the_norm(build, p, q, monkeypatch):
    net, _ = make(build)
    monkeypatch.setattr(rebalancing, "TOLERANCE", 1e9)  # one round at a time
    norms = [entrywise_norm(net, p, q)]
    for _ in range(4):
        rebalance(net, p, q)
        norms.append(entrywise_norm(net, p, q))
    assert all(after <= before * (1 + 1e-12) for before, after in pairwise(norms))
    assert norms[1] < norms[0] * 0.99


@pytest.mark.parametrize("build", NETWORKS)
def test_the_minimum_does_not_depend_on_where_the_rescaling_starts_but_the_norm_does(build):
    net, _ = make(build)
    other = copy.deepcopy(net)
    rebalance(other, 1, 2)
    assert minimal_norm(other, 2, 2) == pytest.approx(minimal_norm(net, 2, 2), rel=1e-9)
    assert entrywise_norm(other, 2, 2) < 0.99 * entrywise_norm(net, 2, 2)


def test_by_hand():
    """Two hidden units: Σ |in| + |out| is least at 2 √(in·out) for each unit; rows first for q ≠ p."""
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1))
    net[0].weight.data = torch.tensor([[1.0, -3.0], [0.0, 9.0]])
    net[2].weight.data = torch.tensor([[-16.0, 4.0]])
    assert entrywise_norm(net, 1, 1) == 33
    assert minimal_norm(net, 1, 1) == pytest.approx(2 * math.sqrt(4 * 16) + 2 * math.sqrt(9 * 4))
    assert entrywise_norm(net, 1, 2) == pytest.approx(math.sqrt(4**2 + 9**2 + 20**2))
    assert entrywise_norm(net, 2, 1) == pytest.approx(math.sqrt(10) + 9 + math.sqrt(16**2 + 4**2))
    assert entrywise_norm(net, 2, 2) == pytest.approx(math.sqrt(1 + 9 + 81 + 256 + 16))
    assert minimal_norm(net, 2, 2) == pytest.approx(math.sqrt(2 * 16 * math.sqrt(10) + 2 * 9 * 4))


def test_every_entry_of_a_kernel_counts_once():
    net = nn.Sequential(nn.Conv2d(1, 2, 2, bias=False), nn.ReLU(), nn.Flatten(), nn.Linear(8, 1, bias=False))
    net[0].weight.data = torch.tensor([1.0, 1, 1, 1, 2, 0, 0, 2]).view(2, 1, 2, 2)
    net[3].weight.data = torch.tensor([[0.0, 4, 0, 0, 1, 2, 3, -10]])
    assert entrywise_norm(net, 1, 1) == 4 + 4 + 20
    assert minimal_norm(net, 1, 1) == pytest.approx(2 * math.sqrt(4 * 4) + 2 * math.sqrt(4 * 16))


def test_biases_follow_but_do_not_count():
    net, _ = make(mlp)
    least = minimal_norm(net, 2, 1), entrywise_norm(net, 2, 1)
    for layer in layers(net):
        layer.bias.data.mul_(100)
    assert (minimal_norm(net, 2, 1), entrywise_norm(net, 2, 1)) == least


@pytest.mark.parametrize(("p", "q"), ORDERS)
def test_units_without_a_path_count_nothing_in_the_infimum(p, q):
    """Unit 0 hears nothing, unit 1 is heard by none; in the next layer unit 2 hears only unit 0, unit 3 is heard by none."""
    net, _ = make(mlp)
    first, second, third = layers(net)
    with torch.no_grad():
        first.weight[0] = 0
        second.weight[:, 1] = 0
        second.weight[2, 1:] = 0
        third.weight[:, 3] = 0
    small = nn.Sequential(nn.Linear(12, 4), nn.ReLU(), nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 3)).double()
    small[0].weight.data = first.weight[[2, 3, 4, 5]].detach()
    small[2].weight.data = second.weight[[0, 1, 4]][:, [2, 3, 4, 5]].detach()
    small[4].weight.data = third.weight[:, [0, 1, 4]].detach()
    assert minimal_norm(net, p, q) == pytest.approx(minimal_norm(small, p, q), rel=1e-9)

    left = copy.deepcopy(net)
    rebalance(left, p, q)
    assert entrywise_norm(left, p, q) > minimal_norm(net, p, q) * 1.001, "the infimum cannot be attained"
    with torch.no_grad():  # but approached
        first, second, third = layers(left)
        second.weight[:, 0] *= 1e-12
        first.weight[1] *= 1e-12
        third.weight[:, 2] *= 1e-12
        second.weight[3] *= 1e-12
    assert entrywise_norm(left, p, q) == pytest.approx(minimal_norm(net, p, q), rel=1e-9)


def test_a_network_without_any_path_is_infinitely_unbalanced_and_one_of_zeros_balanced():
    net, _ = make(mlp)
    layers(net)[1].weight.data.zero_()
    assert minimal_norm(net) == 0
    assert balancedness(net) == math.inf
    for layer in layers(net):
        layer.weight.data.zero_()
    assert balancedness(net) == 1


def test_weights_that_are_not_finite_give_no_number():
    net, _ = make(mlp)
    layers(net)[0].weight.data[0, 0] = math.nan
    assert math.isnan(balancedness(net))
    assert math.isnan(entrywise_norm(net, 1, 2))


def test_one_layer_has_nothing_to_rescale():
    assert balancedness(nn.Linear(3, 2)) == 1


def test_single_precision_and_channels_last_give_the_same_numbers():
    net, _ = make(cnn)
    wanted = balancedness(net, 1, 2)
    assert balancedness(net.float().to(memory_format=torch.channels_last), 1, 2) == pytest.approx(wanted, rel=1e-6)


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        return x + self.fc(x)


class Skip(nn.Sequential):
    def forward(self, x):
        return x + super().forward(x)


shared = nn.Linear(4, 4)


@pytest.mark.parametrize(
    ("net", "message"),
    [
        (nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU()), "BatchNorm2d at 1 has parameters of its own"),
        (nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2)), "Tanh at 1 does not pass on the scale"),
        (nn.Sequential(nn.Linear(4, 4), nn.ReLU(), Residual()), "Residual at 2 is not a chain of plain layers"),
        (Skip(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)), "Skip at the model is not a chain"),
        (nn.Sequential(shared, nn.ReLU(), shared), "the weight of 2 is used by two layers"),
        (nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Linear(4, 2)), "Linear at 2 with 4 inputs does not listen"),
        (nn.Sequential(nn.Linear(4, 4), nn.MaxPool1d(2), nn.Linear(2, 2)), "MaxPool1d at 1 does not pass on"),
        (nn.Sequential(nn.Linear(4, 3), nn.Flatten(), nn.Linear(6, 2)), "Linear at 2 with 6 inputs does not listen"),
        (nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Conv2d(4, 2, 1)), "Conv2d at 2 with 4 inputs does not listen"),
        (nn.Sequential(nn.Conv2d(1, 4, 3), nn.PixelShuffle(2), nn.Conv2d(1, 1, 1)), "PixelShuffle at 1 does not pass on"),
        (nn.Sequential(nn.Linear(4, 4), nn.AlphaDropout(), nn.Linear(4, 2)), "AlphaDropout at 1 does not pass on"),
        (nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(4, 2))), "not a chain of plain layers"),
        (nn.ReLU(), "ReLU has no linear layer"),
    ],
)
def test_what_is_no_chain_of_units_is_refused(net, message):
    with pytest.raises(ModelError, match=message):
        balancedness(net)


@pytest.mark.parametrize(("p", "q"), [(0.5, 2), (2, math.inf), (1, math.nan), (True, 1), ("2", 1)])
def test_orders_that_make_no_norm_are_refused(p, q):
    for measure in (entrywise_norm, minimal_norm, balancedness, rebalance):
        with pytest.raises(OptionError, match="must be a number, at least 1"):
            measure(nn.Linear(1, 1), p, q)
