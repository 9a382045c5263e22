"""The literal algorithm gives the same balanced network."""

import pytest
import torch

from swr.diagnostics.balancing import balancing_reference
from swr.diagnostics.balancing.entrywise import entrywise_norm
from swr.diagnostics.balancing.rebalancing import minimal_norm, rebalance

from .chain_helpers import ORDERS, deep, layers, make, mlp


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
