"""Recycled units: which entries change, how they are drawn, what the optimizer forgets, how large outgoing weights are."""

import pytest
import torch
from torch import Tensor, nn

from swr import methods

from ..unit_helpers import X, passed, small, tensors


def test_of_two_dormant_units_that_follow_each_other_neither_has_outgoing_weights():
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1))
    with torch.no_grad():
        for layer in (model[0], model[2]):
            layer.weight.copy_(torch.eye(2))
            layer.bias.copy_(torch.tensor([0.0, -9.0]))
    passed(model, methods.ReDo(model, X, threshold=0.1, every=1))
    assert model[2].weight[:, 1].eq(0).all()  # although row 1 was re-initialised
    assert model[2].weight[1, 0] != 0
    assert model[2].weight[1, 0] != 1
    assert model[4].weight[0, 1] == 0


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_channels_lose_the_columns_of_their_own_after_a_flatten_and_their_normalisation(layout: torch.memory_format):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(12, 2)).to(
        memory_format=layout
    )
    with torch.no_grad():
        model[1].weight.copy_(torch.tensor([1.0, 2.0, 3.0]))
        model[1].bias.copy_(torch.tensor([0.0, -99.0, 0.0]))
    inputs = torch.randn(4, 1, 6, 6)
    method = methods.ReDo(model, inputs, threshold=0.01, every=1)
    before = tensors(model)
    passed(model, method, inputs)
    after = tensors(model)
    assert after["0.weight"][1].ne(before["0.weight"][1]).all()
    assert torch.equal(after["0.weight"][[0, 2]], before["0.weight"][[0, 2]])
    assert after["0.weight"].is_contiguous(memory_format=layout)
    assert after["0.bias"][1] == 0
    assert after["1.weight"].tolist() == [1.0, 1.0, 3.0]
    assert after["1.bias"].tolist() == [0.0, 0.0, 0.0]
    assert (after["1.running_mean"][1].item(), after["1.running_var"][1].item()) == (0.0, 1.0)
    assert after["1.running_var"][0] != 1.0
    assert after["5.weight"][:, 4:8].eq(0).all()
    kept = [0, 1, 2, 3, 8, 9, 10, 11]
    assert torch.equal(after["5.weight"][:, kept], before["5.weight"][:, kept])
    assert torch.equal(after["5.bias"], before["5.bias"])


def test_fresh_weights_are_drawn_with_the_fan_in_of_the_layer_or_by_a_given_initialiser():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(100, 400), nn.ReLU(), nn.Linear(400, 2))
    nn.init.zeros_(model[0].weight)
    nn.init.zeros_(model[0].bias)
    x = torch.randn(3, 100)
    passed(model, methods.ReDo(model, x, threshold=0.0, every=1), x)
    assert model[0].weight.abs().max() <= 0.1
    assert model[0].weight.std().item() == pytest.approx(0.1 / 3**0.5, rel=0.02)
    given = small()
    bias = given[2].bias.detach().clone()
    passed(given, methods.ReDo(given, X, threshold=0.1, every=1, initialise=lambda m: nn.init.constant_(m.weight, 7.0)))
    assert given[0].weight.tolist() == [[1.0, 3.0], [7.0, 7.0], [2.0, 2.0]]
    assert torch.equal(given[2].bias, bias)


@pytest.mark.parametrize("policy", ["keep", "clear_moments", "clear_moments_and_step", "clear_all"])
def test_the_optimizer_forgets_recycled_entries_by_the_policy(policy: str):
    model = small()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.0)
    method = methods.ReDo(model, X, threshold=0.1, every=2, optimizer_state=policy)
    method.attach(optimizer)
    for _ in range(2):
        optimizer.zero_grad()
        loss = (model(X) * torch.tensor([1.0, 2.0])).sum()
        for p in model.parameters():
            p.grad = torch.ones_like(p)
        loss.detach()
        optimizer.step()
    recycled = {
        model[0].weight: torch.tensor([[False] * 2, [True] * 2, [False] * 2]),
        model[0].bias: torch.tensor([False, True, False]),
        model[2].weight: torch.tensor([[False, True, False]] * 2),
        model[2].bias: torch.tensor([False, False]),
    }
    for p, mask in recycled.items():
        if policy == "clear_all" and mask.any():
            assert p not in optimizer.state
            continue
        state = optimizer.state[p]
        cleared = mask if policy != "keep" else torch.zeros_like(mask)
        for key in ("exp_avg", "exp_avg_sq"):
            assert state[key][cleared].eq(0).all()
            assert state[key][~cleared].ne(0).all()
        assert state["step"].item() == (0 if policy == "clear_moments_and_step" and mask.any() else 2)


def test_the_outgoing_weights_of_a_channel_are_all_its_columns():
    model = nn.Sequential(nn.Conv2d(1, 2, 1, bias=False), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3))
    nn.init.ones_(model[0].weight)
    x = torch.ones(2, 1, 2, 2)
    method = methods.ContinualBackprop(model, x, rate=0.1, decay=0.0)
    passed(model, method, x)
    expected = [model[3].weight[:, :4].abs().mean().item(), model[3].weight[:, 4:].abs().mean().item()]
    assert method.utility.tolist() == pytest.approx(expected)


def test_the_outgoing_weights_of_a_unit_with_several_consumers_count_together():
    class Fork(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(1, 4, 1)
            self.one, self.two = nn.Conv2d(4, 6, 3, padding=1, groups=2), nn.Conv2d(4, 2, 1)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            h = self.conv(x).relu()
            return self.one(h), self.two(h)

    model, x = Fork(), torch.ones(1, 1, 2, 2)
    with torch.no_grad():
        model.conv.weight.fill_(0.0)
        model.conv.bias.fill_(1.0)
    method = methods.ContinualBackprop(model, x, rate=0.1, decay=0.0)
    passed(model, method, x)
    for unit in range(4):
        rows = slice(0, 3) if unit < 2 else slice(3, 6)
        leaving = torch.cat([model.one.weight[rows, unit % 2].flatten(), model.two.weight[:, unit].flatten()])
        assert method.utility[unit].item() == pytest.approx(leaving.abs().mean().item(), rel=1e-5)
