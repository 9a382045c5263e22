"""Gradients of new data are those of training on a copy, and leave no trace."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from swr import methods
from swr.errors import OptionError
from swr.methods.tools.loss_gradients import gradients

from ..methods_table import changed
from ..reset_helpers import mlp


class TestGradients:
    def test_are_those_of_training_on_a_copy_and_leave_no_trace(self):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3)).eval()
        model[1].running_mean.fill_(3.0)
        before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        batches = [(torch.randn(5, 4), torch.randint(3, (5,))) for _ in range(3)]
        twin = copy.deepcopy(model).train()
        with gradients(model, list(model.parameters()), F.cross_entropy, torch.Generator()) as gradient:
            for inputs, targets in batches:
                twin.zero_grad()
                F.cross_entropy(twin(inputs), targets).backward()
                for found, p in zip(gradient(inputs, targets), twin.parameters(), strict=True):
                    assert torch.equal(found, p.grad)
        assert not changed(before, model.state_dict())
        assert not any(module.training for module in model.modules())
        assert all(p.grad is None for p in model.parameters())

    def test_draw_dropout_from_the_methods_generator(self):
        model = nn.Sequential(nn.Dropout(0.5), nn.Linear(8, 2))
        found = []
        for number in range(3):
            torch.manual_seed(number)  # the global numbers do not matter
            state = torch.get_rng_state()
            with gradients(model, [model[1].weight], F.cross_entropy, torch.Generator().manual_seed(number // 2)) as gradient:
                found.append(gradient(torch.ones(4, 8), torch.zeros(4, dtype=torch.long))[0])
            assert torch.equal(torch.get_rng_state(), state)
        assert torch.equal(found[0], found[1])
        assert not torch.equal(found[0], found[2])

    @pytest.mark.parametrize("name", ["dash", "lure"])
    def test_methods_that_look_at_the_data_ask_for_it(self, name: str):
        with pytest.raises(OptionError, match=r"looks at the new data: call new_task\(batches, loss_fn\)"):
            methods.build(name, mlp(2, 2)).new_task()
