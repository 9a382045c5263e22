"""S&P: towards the saved parameters, or shrunken with fresh noise; what moves at a new task, and what does not."""

import copy

import pytest
import torch
from torch import nn

from swr import methods

from .methods_table import Loop, changed
from .reset_helpers import mlp


class TestShrinkPerturbFresh:
    def test_example(self):
        model = nn.Linear(1, 1, bias=False)
        nn.init.constant_(model.weight, 2.0)
        method = methods.ShrinkPerturbFresh(model, initialise=lambda layer: nn.init.constant_(layer.weight, 0.5))
        method.new_task()
        assert model.weight.item() == pytest.approx(0.85)

    def test_mixes_with_a_new_draw_each_time_and_makes_statistics_and_optimizer_new(self):
        loop = Loop("cnnbn", "shrink-perturb-fresh", {})
        loop.train(0, 3)
        before, numbers = loop.tensors(), loop.method.generator.get_state()
        loop.new_task()
        after = loop.tensors()
        fresh = copy.deepcopy(loop.model)
        twin = methods.FullReset(fresh)
        twin.generator.set_state(numbers)
        twin.new_task()
        for name, p in fresh.named_parameters():
            torch.testing.assert_close(after[name], 0.4 * before[name] + 0.1 * p)
        torch.testing.assert_close(after["1.weight"], 0.4 * before["1.weight"] + 0.1)
        assert torch.equal(after["1.running_var"], torch.ones(4))
        assert after["1.num_batches_tracked"] == 0
        assert not loop.optimizer.state
        loop.new_task()
        again = (loop.tensors()["0.weight"] - 0.4 * after["0.weight"]) / 0.1
        assert (again - fresh[0].weight).abs().mean() > 0.01

    def test_frozen_parameters_stay(self):
        model = mlp(2, 3, 2)
        model[0].weight.requires_grad_(False)
        before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        methods.ShrinkPerturbFresh(model).new_task()
        assert changed(before, model.state_dict()) == {"0.bias", "2.weight", "2.bias"}


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
