"""Hyperball: fixed norms, and steps of a fixed length."""

import pytest
import torch
from torch import nn

from swr import methods

from .anneal_helpers import entries, vector


def stepped(layer: nn.Linear, gradient: list[float], lr: float = 0.1, scale: float = 1.0) -> None:
    optimizer = torch.optim.SGD(layer.parameters(), lr=lr)
    methods.Hyperball(layer, scale=scale).attach(optimizer)
    layer.weight.grad = torch.tensor([gradient])
    optimizer.step()


def test_example():
    layer = vector(3.0, 4.0)
    stepped(layer, [0.0, -7.0])  # u = (0, -7): W + 0.1 * 5 * (0, 1) = (3, 4.5), and 5 / √29.25 = 0.92450 of that
    assert entries(layer) == [2.7735, 4.16025]
    again = vector(3.0, 4.0)
    stepped(again, [0.0, -7.0], lr=0.01, scale=10.0)
    assert entries(again) == entries(layer)


def test_the_length_of_the_gradient_does_not_matter_and_the_norm_stays():
    found = []
    for size in (1e-3, 1.0, 1e3):
        layer = vector(3.0, 4.0)
        stepped(layer, [size, 0.0])
        found.append(entries(layer))
        assert layer.weight.norm().item() == pytest.approx(5.0, rel=1e-6)
    assert found[0] == found[1] == found[2] != [3.0, 4.0]


def test_no_update_and_no_radius_leave_the_weights_as_they_were():
    still = vector(3.0, 4.0)
    stepped(still, [0.0, 0.0])
    assert entries(still) == [3.0, 4.0]
    zero = vector(0.0, 0.0)
    stepped(zero, [1.0, 2.0])
    assert entries(zero) == [0.0, 0.0]


def test_biases_and_a_free_head_are_left_to_the_optimizer():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    norms = [layer.weight.norm().item() for layer in (model[0], model[2])]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    methods.Hyperball(model, head=False).attach(optimizer)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    model(torch.randn(8, 4)).square().sum().backward()
    optimizer.step()
    assert model[0].weight.norm().item() == pytest.approx(norms[0], rel=1e-5)
    assert not torch.equal(model[0].weight, before["0.weight"])
    for name in ("0.bias", "2.weight", "2.bias"):
        p = model.get_parameter(name)
        assert torch.equal(p.detach(), before[name] - 0.5 * p.grad)


def test_agrees_with_the_formula_over_many_steps_of_adam():
    torch.manual_seed(0)
    model, twin = nn.Linear(6, 3, bias=False), nn.Linear(6, 3, bias=False)
    twin.load_state_dict(model.state_dict())
    optimizer, other = (torch.optim.Adam(net.parameters(), lr=1e-2) for net in (model, twin))
    methods.Hyperball(model).attach(optimizer)
    radius = twin.weight.detach().norm()
    for number in range(20):
        x = torch.randn(8, 6, generator=torch.Generator().manual_seed(number))
        for net, one in ((model, optimizer), (twin, other)):
            one.zero_grad()
            net(x).square().sum().backward()
            before = net.weight.detach().clone()
            one.step()
        with torch.no_grad():
            update = (before - twin.weight) / 1e-2  # u of W - η u
            to = before - 1e-2 * radius * update / update.norm()
            twin.weight.copy_(radius * to / to.norm())
    assert torch.allclose(model.weight, twin.weight, atol=1e-6)
