"""The slow copy: in place in evaluation, away in training, and never lost."""

import pytest
import torch
from torch import nn

from swr.errors import StateError
from swr.methods.tools.evaluation_copy import EvaluationCopy

from ..anneal_helpers import entries, vector


def test_averages_and_writes_back():
    layer = vector(2.0)
    copy = EvaluationCopy(layer)
    layer.weight.data.fill_(4.0)
    copy.average(0.75)
    assert copy.tensors["weight"].item() == 2.5
    copy.write_back()
    assert entries(layer) == [2.5]
    layer.weight.data.fill_(9.0)
    assert copy.tensors["weight"].item() == 2.5  # a storage of its own


def test_is_there_in_evaluation_only_also_after_a_call_that_fails():
    layer, one = vector(2.0), torch.ones(1, 1)
    copy = EvaluationCopy(layer)
    layer.weight.data.fill_(4.0)
    assert layer.train()(one).item() == 4.0
    assert layer.eval()(one).item() == 2.0
    with pytest.raises(RuntimeError):
        layer(torch.ones(1, 3))
    assert entries(layer) == [4.0]
    with copy.in_place():
        assert entries(layer) == [2.0]
        layer(one)
        assert entries(layer) == [2.0]
    assert entries(layer) == [4.0]
    copy.close()
    assert layer(one).item() == 4.0


def test_copies_parameters_that_are_trained_and_floating_point_buffers():
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    model[0].bias.requires_grad_(False)
    assert set(EvaluationCopy(model).tensors) == {"0.weight", "1.weight", "1.bias", "1.running_mean", "1.running_var"}


def test_the_state_of_another_model_is_refused():
    with pytest.raises(StateError, match="another model"):
        EvaluationCopy(vector(1.0)).load(EvaluationCopy(vector(1.0, 2.0)).tensors)
