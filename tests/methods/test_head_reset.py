"""Head reset touches the head alone."""

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
