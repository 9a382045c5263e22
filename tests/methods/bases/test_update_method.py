"""Methods around the update: what they remember, and what a skipped step is."""

import torch
from torch import nn

from swr.methods.bases.update_method import Moved, UpdateMethod


class Halves(UpdateMethod):
    """Takes half of every update back."""

    title = "halves"
    seen: Moved

    def change(self, moved: Moved) -> None:
        self.seen = moved
        for p, before, rate in zip(*moved, strict=True):
            p.lerp_(before, 0.5 * (rate > 0))


def test_sees_the_parameters_before_and_after_and_their_learning_rates():
    model = nn.Sequential(nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False))
    groups = [{"params": [model[0].weight], "lr": 1.0}, {"params": [model[1].weight], "lr": 2.0}]
    optimizer = torch.optim.SGD(groups)
    for layer in model:
        layer.weight.data.fill_(5.0)
        layer.weight.grad = torch.ones(1, 1)
    method = Halves(model, parameters=list(model.parameters()))
    method.attach(optimizer)
    optimizer.step()
    assert method.seen.rates == [1.0, 2.0]
    assert [p.item() for p in method.seen.before] == [5.0, 5.0]
    assert [p.item() for p in model.parameters()] == [4.5, 4.0]


def test_a_step_that_the_optimizer_skipped_has_the_rate_zero():
    layer = nn.Linear(1, 1, bias=False)
    optimizer = torch.optim.SGD(layer.parameters(), lr=1.0)
    method = Halves(layer, parameters=[layer.weight])
    for found, expected in ((torch.tensor(1.0), 0.0), (torch.tensor(0.0), 1.0)):
        optimizer.found_inf = found
        method.before_step(optimizer)
        method.after_step(optimizer)
        assert float(method.seen.rates[0]) == expected


def test_by_hand_it_acts_once_for_each_remembered_step():
    layer = nn.Linear(1, 1, bias=False)
    layer.weight.data.fill_(2.0)
    method = Halves(layer, parameters=[layer.weight])
    method.before_step(torch.optim.SGD(layer.parameters(), lr=1.0))
    layer.weight.data.fill_(4.0)
    method.step()
    method.step()
    assert layer.weight.item() == 3.0
