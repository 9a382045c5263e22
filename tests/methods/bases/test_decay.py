"""L2 and L2 Init: the gradient added before a step is that of the loss term, once."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from swr import methods

from ..methods_table import MODELS


def by_hand(model: nn.Module, initial: list[torch.Tensor], name: str, coefficient: float) -> torch.Tensor:
    anchors = initial if name == "l2-init" else [torch.zeros_like(p) for p in initial]
    return sum(0.5 * coefficient * (p - a).square().sum() for p, a in zip(model.parameters(), anchors, strict=True))


@pytest.mark.parametrize("name", ["l2", "l2-init"])
@pytest.mark.parametrize("attach", [True, False])
@pytest.mark.parametrize("network", ["mlp", "cnnbn"])
def test_equals_the_loss_term_written_by_hand(name: str, attach: bool, network: str):
    build, shape = MODELS[network]
    torch.manual_seed(0)
    model = build().double()
    literal = copy.deepcopy(model)
    initial = [p.detach().clone() for p in literal.parameters()]
    method = methods.build(name, model, coefficient=0.3)
    optimizers = [torch.optim.SGD(one.parameters(), lr=0.05, momentum=0.9) for one in (model, literal)]
    if attach:
        method.attach(optimizers[0])
    for _ in range(8):
        inputs, labels = torch.randn(6, *shape, dtype=torch.float64), torch.randint(5, (6,))
        penalty = None if attach else method.penalty()
        loss = F.cross_entropy(model(inputs), labels)
        losses = [
            loss if penalty is None else loss + penalty,
            F.cross_entropy(literal(inputs), labels) + by_hand(literal, initial, name, 0.3),
        ]
        for loss, optimizer in zip(losses, optimizers, strict=True):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    for p, q in zip(model.parameters(), literal.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-10, atol=1e-12)


def test_the_value_counts_all_learnable_parameters_biases_and_gains_included():
    model = nn.Sequential(nn.Linear(2, 1), nn.BatchNorm1d(1))
    for p in model.parameters():
        nn.init.constant_(p, 2.0)
    model[0].bias.requires_grad_(False)
    method = methods.L2(model, coefficient=0.5)
    assert method.penalty().item() == 0.5 / 2 * 4 * 4  # two weights, one gain, one shift


def test_l2_init_is_zero_at_the_start_and_its_gradient_too():
    model = nn.Linear(3, 2)
    method = methods.L2Init(model, coefficient=1.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    method.attach(optimizer)
    before = model.weight.detach().clone()
    optimizer.step()
    assert method.value().item() == 0.0
    assert torch.equal(model.weight, before)


def test_a_parameter_without_gradient_is_pulled_as_by_a_loss_term():
    model = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    methods.L2(model, coefficient=0.25).attach(optimizer)
    before = model[1].weight.detach().clone()
    model[0](torch.ones(1, 2)).sum().backward()
    optimizer.step()
    torch.testing.assert_close(model[1].weight, 0.75 * before)


def test_parameters_of_another_optimizer_are_left_alone():
    model = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])
    optimizer = torch.optim.SGD(model[0].parameters(), lr=1.0)
    methods.L2(model, coefficient=0.25).attach(optimizer)
    optimizer.step()
    assert model[1].weight.grad is None
