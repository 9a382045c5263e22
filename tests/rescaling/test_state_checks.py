"""Which numbers a state may hold."""

import math

import pytest
import torch
from torch import nn

import swr
from swr.rescaling.state_checks import check_anchors, check_optimizer_state


def state():
    model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    ours = swr.SoftWeightRescaling(model, torch.randn(1, 4), coefficient=0.1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    ours.attach(optimizer)
    model(torch.randn(2, 4)).sum().backward()
    optimizer.step()
    return ours.state_dict()


def test_what_a_rescaler_saves_is_accepted_unchanged():
    saved = state()
    assert check_anchors(saved["anchors"]) == saved["anchors"]
    for part in saved["optimizers"]:
        check_optimizer_state(part)
    assert check_anchors({"a": 0, "b": 2}) == {"a": 0.0, "b": 2.0}


@pytest.mark.parametrize("value", ["3", None, True, math.nan, math.inf, -1.0, [1.0]])
def test_an_anchor_is_a_finite_number(value):
    with pytest.raises(swr.StateError, match=r"the anchor of 0\.weight must be a finite number, at least 0, found"):
        check_anchors({"0.weight": value})


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"steps": "3"}, "steps in the state"),
        ({"waiting": -1}, "waiting in the state"),
        ({"missed": math.nan}, "missed in the state"),
        ({"pending": [0.0]}, "pending in the state must be numbers by name, found list"),
        ({"pending": {"0.weight": math.nan}}, r"pending for 0\.weight must be a finite number, found nan"),
        ({"lr": ["fast"]}, "lr in the state"),
        ({"largest_lr": [-0.1]}, "largest_lr in the state"),
    ],
)
def test_a_counter_is_a_finite_number(change, sentence):
    [part] = state()["optimizers"]
    with pytest.raises(swr.StateError, match=sentence):
        check_optimizer_state({**part, **change})


@pytest.mark.parametrize("found", [[], "state", {"steps": 1}])
def test_something_else_is_no_state(found):
    with pytest.raises(swr.StateError, match="found"):
        check_optimizer_state(found)
    with pytest.raises(swr.StateError, match="found"):
        check_anchors([1.0])
