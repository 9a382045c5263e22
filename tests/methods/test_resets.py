"""S&P, head reset and full reset: what moves at a new task, and what does not."""

import pytest
import torch
from torch import nn

from swr import methods
from swr.errors import ModelError, OptionError

from .methods_table import Loop, changed

HEADS = {
    "mlp": {"5.weight", "5.bias"},
    "cnn": {"7.weight", "7.bias", "9.weight", "9.bias"},
    "cnnbn": {"9.weight", "9.bias", "11.weight", "11.bias"},
}


def test_shrink_perturb_mixes_with_the_saved_parameters_and_leaves_statistics():
    loop = Loop("cnnbn", "shrink-perturb", {"coefficient": 0.4})
    initial = loop.tensors()
    loop.train(0, 3)
    before = loop.tensors()
    loop.new_task()
    after = loop.tensors()
    learnable = {name for name, _ in loop.model.named_parameters()}
    assert changed(before, after) == learnable
    for name in learnable:
        torch.testing.assert_close(after[name], 0.6 * before[name] + 0.4 * initial[name])


def test_shrink_perturb_with_one_returns_to_the_start_exactly():
    loop = Loop("mlp", "shrink-perturb", {"coefficient": 1.0})
    initial = loop.tensors()
    loop.train(0, 3)
    loop.new_task()
    assert not changed(initial, loop.tensors())


@pytest.mark.parametrize("model", HEADS)
def test_head_reset_touches_the_fully_connected_layers_only_and_of_an_mlp_the_last(model: str):
    loop = Loop(model, "head-reset", {})
    initial = loop.tensors()
    loop.train(0, 2)
    before = loop.tensors()
    loop.new_task()
    assert changed(before, loop.tensors()) == HEADS[model]
    assert changed(initial, loop.tensors()) >= HEADS[model]  # a fresh draw, not the saved one
    again = loop.tensors()
    loop.new_task()
    assert changed(again, loop.tensors()) == HEADS[model]


def test_a_fresh_head_is_drawn_as_the_layer_was():
    loop = Loop("mlp", "head-reset", {})
    for p in loop.model[5].parameters():
        nn.init.constant_(p, 100.0)
    loop.new_task()
    bound = loop.model[5].in_features ** -0.5
    assert loop.model[5].weight.abs().max() <= bound
    assert loop.model[5].weight.std() > bound / 4


def test_head_reset_resets_named_layers_with_a_given_initialiser():
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2))
    method = methods.HeadReset(model, layers=["0"], initialise=lambda layer: nn.init.ones_(layer.weight))
    last = model[2].weight.detach().clone()
    method.new_task()
    assert torch.equal(model[0].weight, torch.ones(3, 2))
    assert torch.equal(model[2].weight, last)


def test_full_reset_makes_everything_new_running_statistics_and_optimizer_included():
    loop = Loop("cnnbn", "full-reset", {})
    initial = loop.tensors()
    loop.train(0, 3)
    loop.new_task()
    after = loop.tensors()
    assert torch.equal(after["1.running_mean"], initial["1.running_mean"])
    assert after["1.num_batches_tracked"].item() == 0
    assert {"0.weight", "4.weight", "9.weight", "11.weight"} <= changed(initial, after)
    assert not loop.optimizer.state
    loop.train(3, 5)
    assert len(loop.optimizer.state) == len(list(loop.model.parameters()))


def test_head_reset_keeps_the_optimizers_state_unless_told_to_clear_it():
    for choice, left in (("keep", 6), ("clear_all", 4)):
        model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 3), nn.Linear(3, 2))
        optimizer = torch.optim.Adam(model.parameters())
        method = methods.HeadReset(model, optimizer_state=choice)
        method.attach(optimizer)
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        method.new_task()
        assert len(optimizer.state) == left


def test_what_cannot_be_reset_is_said():
    with pytest.raises(ModelError, match=r"no nn\.Linear"):
        methods.HeadReset(nn.Conv2d(1, 1, 1))
    with pytest.raises(OptionError, match="no layer 'head'"):
        methods.HeadReset(nn.Sequential(nn.Linear(1, 1)), layers=["head"])
    with pytest.raises(OptionError, match="optimizer_state"):
        methods.FullReset(nn.Linear(1, 1), optimizer_state="burn")

    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gain = nn.Parameter(torch.ones(1))

    with pytest.raises(ModelError, match=r"Own has parameters of its own but no reset_parameters"):
        methods.FullReset(Own()).new_task()
