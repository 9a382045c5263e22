"""ReDo: the dormant units it chooses, and what becomes of them."""

import pytest
import torch
from torch import nn

from swr import methods
from swr.methods.bases.unit_method import mean_magnitude
from swr.methods.redo import dormancy_scores

from .unit_helpers import X, passed, small, tensors


def test_dormancy_scores_have_mean_one():
    scores = dormancy_scores(mean_magnitude(torch.tensor([[1.0, 0.0, 2.0], [3.0, 0.0, 2.0]])))
    assert scores.tolist() == pytest.approx([1.5, 0.0, 1.5])
    channels = torch.rand(2, 3, 4, 5)  # [examples, places, units]
    assert dormancy_scores(mean_magnitude(channels)).mean().item() == pytest.approx(1.0)


@pytest.mark.parametrize("bias", [True, False])
def test_redo_recycles_the_dormant_unit_and_nothing_else(bias: bool):
    model = small(bias)
    with torch.no_grad():
        if bias:
            model[0].bias[1] = -1.0
    before = tensors(model)
    method = methods.ReDo(model, X, threshold=0.1, every=1)
    passed(model, method)
    after = tensors(model)
    assert after["0.weight"][1].ne(before["0.weight"][1]).all()
    assert after["0.weight"].abs().max() <= 3
    assert after["0.weight"][1].abs().max() <= 2**-0.5
    assert torch.equal(after["2.weight"], torch.tensor([[1.0, 0.0, -1.0], [-1.0, 0.0, 0.0]]))
    assert torch.equal(after["0.weight"][[0, 2]], before["0.weight"][[0, 2]])
    if bias:
        assert after["0.bias"].tolist() == [0.0, 0.0, 0.0]
        assert torch.equal(after["2.bias"], before["2.bias"])


def test_recycling_a_silent_unit_leaves_the_outputs_of_the_batch_as_they_were():
    model = small()
    outputs = model(X)
    method = methods.ReDo(model, X, threshold=0.1, every=1)
    passed(model, method)
    assert torch.equal(model(X), outputs)


def test_in_a_silent_layer_every_unit_is_dormant():
    model = small()
    nn.init.zeros_(model[0].weight)
    passed(model, methods.ReDo(model, X, threshold=0.0, every=1))
    assert model[0].weight.ne(0).all()
    assert model[2].weight.eq(0).all()


def test_redo_acts_at_every_nth_step_on_the_activations_of_that_step():
    model = small()
    method = methods.ReDo(model, X, threshold=0.1, every=3)
    for _ in range(2):
        passed(model, method, torch.zeros(2, 2))  # all silent, and not looked at
    assert model[2].weight.ne(0).sum() == 5
    passed(model, method)
    assert model[2].weight[:, 1].eq(0).all()
    assert model[2].weight[:, [0, 2]].ne(0).sum() == 3


def test_a_step_without_a_pass_puts_redo_off_until_there_is_one():
    model = small()
    method = methods.ReDo(model, X, threshold=0.1, every=2)
    for _ in range(3):
        method.step()
    assert model[2].weight[:, 1].ne(0).all()
    passed(model, method)
    assert model[2].weight[:, 1].eq(0).all()


def test_several_passes_before_a_step_count_together():
    model = small()
    method = methods.ReDo(model, X, threshold=0.1, every=1)
    model(X)
    model(torch.tensor([[0.0, 0.0]]))
    wake = nn.init.ones_(model[0].weight.data[1:2])
    model(X)
    method.step()
    assert torch.equal(model[0].weight[1:2], wake)
    assert model[2].weight[:, 1].ne(0).all()
