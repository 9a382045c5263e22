"""Continual Backprop chooses the units that the algorithm, written out, chooses."""

import torch
from torch import Tensor, nn

from swr import methods

from .unit_helpers import X, passed, small, tensors


def test_continual_backprop_replaces_the_least_useful_of_the_mature_units():
    model = small()
    method = methods.ContinualBackprop(model, X, rate=0.5, maturity=1, decay=0.0)
    passed(model, method)
    assert method.utility.tolist() == [2.0, 0.0, 1.0]
    assert method.age.tolist() == [1, 1, 1]
    assert method.owed == [0.0]  # no unit is older than one step
    before = tensors(model)
    passed(model, method)
    assert method.owed == [0.5]
    assert method.age.tolist() == [2, 0, 2]
    assert model[0].weight[1].ne(0).all()
    assert model[2].weight.tolist() == [[1.0, 0.0, -1.0], [-1.0, 0.0, 0.0]]
    assert torch.equal(model[0].weight[[0, 2]], before["0.weight"][[0, 2]])
    passed(model, method)
    assert method.owed == [0.5]  # half a unit, and half of the two that are mature
    assert method.age.tolist() == [3, 1, 0]
    assert model[2].weight.tolist() == [[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]]


def literal_continual_backprop(h: Tensor, outgoing: Tensor, d: float, m: int, rho: float, steps: int) -> list[list[int]]:
    """The card, unit by unit; activations and weights are constant."""
    size = h.shape[1]
    age, u, c, replaced = [0] * size, [0.0] * size, 0.0, []
    for _ in range(steps):
        for i in range(size):
            age[i] += 1
            u[i] = d * u[i] + (1 - d) * h[:, i].abs().mean().item() * outgoing[:, i].abs().mean().item()
        mature = [i for i in range(size) if age[i] > m]
        c += rho * len(mature)
        n = int(c)
        c -= n
        worst = sorted(mature, key=lambda i: u[i] / (1 - d ** age[i]))[:n]
        for i in worst:
            u[i], age[i] = 0.0, 0
        replaced.append(sorted(worst))
    return replaced


def test_continual_backprop_chooses_as_the_literal_algorithm_does():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 9), nn.Tanh(), nn.Linear(9, 3))
    x = torch.randn(8, 4)
    with torch.no_grad():  # units that are almost equally useful, so that young ones look worse without the correction
        model[0].weight.mul_(50)
        model[2].weight.copy_(1 + 0.1 * torch.rand(3, 9))
    h, outgoing = torch.tanh(model[0](x)).detach(), model[2].weight.detach().clone()
    kept = {name: p.detach().clone() for name, p in model.named_parameters()}
    method = methods.ContinualBackprop(model, x, rate=0.15, maturity=4, decay=0.9)
    found = []
    for _ in range(40):
        before = method.age.clone()
        passed(model, method, x)
        found.append((method.age <= before).nonzero().flatten().tolist())
        model.load_state_dict(kept)  # so that what is judged stays the same
    assert found == literal_continual_backprop(h, outgoing, 0.9, 4, 0.15, 40)
    assert sum(map(len, found)) > 10
