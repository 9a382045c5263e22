"""The minimum of the l_{p,q} norm: by hand, against scipy; the function is kept."""

import copy
import math
from itertools import pairwise

import pytest
import torch
from scipy.optimize import minimize
from torch import nn

from swr.diagnostics.balancing import rebalancing
from swr.diagnostics.balancing.entrywise import entrywise_norm
from swr.diagnostics.balancing.rebalancing import balancedness, minimal_norm, rebalance

from .chain_helpers import NETWORKS, ORDERS, cnn, columns, layers, literal_norm, make, mlp, two_units


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


def test_the_minimum_by_hand():
    """Σ |in| + |out| is least at 2 √(in·out) for each unit."""
    net = two_units()
    assert minimal_norm(net, 1, 1) == pytest.approx(2 * math.sqrt(4 * 16) + 2 * math.sqrt(9 * 4))
    assert minimal_norm(net, 2, 2) == pytest.approx(math.sqrt(2 * 16 * math.sqrt(10) + 2 * 9 * 4))


def test_biases_follow_but_do_not_count():
    net, _ = make(mlp)
    least = minimal_norm(net, 2, 1), entrywise_norm(net, 2, 1)
    for layer in layers(net):
        layer.bias.data.mul_(100)
    assert (minimal_norm(net, 2, 1), entrywise_norm(net, 2, 1)) == least


@pytest.mark.parametrize(("p", "q"), ORDERS)
def test_units_without_a_path_count_nothing_in_the_infimum(p, q):
    """Unit 0 has no inputs, unit 1 no outputs; in the next layer unit 2 reads only unit 0, unit 3 has no outputs."""
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
