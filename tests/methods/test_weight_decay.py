"""Decoupled weight decay: AdamW out of Adam, exactly."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from swr import methods
from swr.errors import AttachError, OptionError

from .methods_table import MODELS


def trained(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int = 6) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    for step in range(steps):
        x = torch.randn(6, *MODELS["cnnbn"][1], generator=generator)
        optimizer.param_groups[0]["lr"] = 0.05 / (1 + step)  # a schedule
        loss = F.cross_entropy(model(x), torch.randint(5, (6,), generator=generator))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return [p.detach().clone() for p in model.parameters()]


def network() -> nn.Module:
    torch.manual_seed(0)
    return MODELS["cnnbn"][0]()


def test_one_step_without_gradient_decays_by_the_learning_rate_times_lambda():
    results = {}
    for name, coupled in (("decoupled", 0.0), ("coupled", 0.1)):
        layer = nn.Linear(1, 1, bias=False)
        nn.init.ones_(layer.weight)
        optimizer = torch.optim.Adam(layer.parameters(), lr=0.1, weight_decay=coupled)
        methods.WeightDecay(layer, coefficient=0.0 if coupled else 0.1).attach(optimizer)
        layer.weight.grad = torch.zeros(1, 1)
        optimizer.step()
        results[name] = layer.weight.item()
    assert results["decoupled"] == pytest.approx(0.99)
    assert results["coupled"] == pytest.approx(0.90)


def test_with_adam_it_is_torchs_adamw_bit_for_bit():
    model, reference, plain = network(), network(), network()
    optimizer = torch.optim.Adam(model.parameters())
    methods.WeightDecay(model, coefficient=0.3, parameters="all").attach(optimizer)
    ours = trained(model, optimizer)
    torchs = trained(reference, torch.optim.AdamW(reference.parameters(), weight_decay=0.3))
    assert all(map(torch.equal, ours, torchs))
    assert not any(map(torch.equal, ours, trained(plain, torch.optim.Adam(plain.parameters()))))


def test_by_default_it_spares_biases_and_normalisation_layers():
    model, reference = network(), network()
    optimizer = torch.optim.Adam(model.parameters())
    methods.WeightDecay(model, coefficient=0.3).attach(optimizer)
    weights = [p for p in reference.parameters() if p.ndim > 1]
    others = [p for p in reference.parameters() if p.ndim == 1]
    both = torch.optim.AdamW([{"params": weights, "weight_decay": 0.3}, {"params": others, "weight_decay": 0.0}])
    ours = trained(model, optimizer, 1)
    both.param_groups[1]["lr"] = 0.05
    assert all(map(torch.equal, ours, trained(reference, both, 1)))


def test_every_group_decays_by_its_own_learning_rate_and_strangers_not_at_all():
    model = nn.ModuleList([nn.Linear(2, 2, bias=False) for _ in range(3)])
    for p in model.parameters():
        nn.init.ones_(p)
    groups = [{"params": model[0].parameters(), "lr": 0.1}, {"params": model[1].parameters(), "lr": 0.5}]
    optimizer = torch.optim.SGD(groups)
    methods.WeightDecay(model, coefficient=0.2).attach(optimizer)
    optimizer.step()
    assert [p[0, 0].item() for p in model.parameters()] == pytest.approx([0.98, 0.9, 1.0])


@pytest.mark.parametrize("fused", [True, False])
def test_a_step_that_a_gradient_scaler_skips_does_not_decay(fused: bool):
    model = nn.Linear(4, 3)
    optimizer = torch.optim.Adam(model.parameters(), fused=fused)
    methods.WeightDecay(model, coefficient=0.5).attach(optimizer)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
    for factor, moves in ((float("inf"), False), (1.0, True)):
        before = model.weight.detach().clone()
        optimizer.zero_grad()
        scaler.scale(factor * model(torch.ones(2, 4)).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        assert torch.equal(model.weight, before) != moves


def test_it_wants_an_optimizer_for_the_learning_rate():
    method = methods.WeightDecay(nn.Linear(2, 2))
    with pytest.raises(AttachError, match="learning rate"):
        method.before_step()
    with pytest.raises(OptionError, match="parameters must be 'weights' or 'all', found 'biases'"):
        methods.WeightDecay(nn.Linear(2, 2), parameters="biases")


def test_a_weight_frozen_later_stays_and_a_group_added_later_decays():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    optimizer = torch.optim.SGD(model[0].parameters(), lr=0.1)
    methods.WeightDecay(model, coefficient=1.0).attach(optimizer)
    before = [layer.weight.detach().clone() for layer in model]
    optimizer.add_param_group({"params": list(model[1].parameters()), "lr": 0.5})
    model[0].requires_grad_(False)
    optimizer.step()
    assert torch.equal(model[0].weight, before[0])
    torch.testing.assert_close(model[1].weight.detach(), 0.5 * before[1])


def test_weights_that_were_replaced_are_an_error():
    model = nn.Linear(2, 2)
    method = methods.WeightDecay(model)
    model.weight = nn.Parameter(torch.ones(2, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    method.attach(optimizer)
    with pytest.raises(AttachError, match="holds none of the parameters that the method was built for"):
        optimizer.step()
