"""RIFLE resets the head within a training, never at its end."""

import pytest
import torch
from torch import nn

from swr import methods
from swr.errors import ModelError, OptionError
from swr.methods.rifle import boundaries

from .methods_table import changed
from .reset_helpers import mlp, trained


class TestRifle:
    def test_examples(self):
        assert boundaries(40, 1) == (20,)
        assert boundaries(12, 2) == (4, 8)
        assert boundaries(7, 2) == (2, 4)  # as equal as can be, and no short period at the end

    def test_resets_only_the_head_within_a_training_and_never_at_its_end(self):
        model = mlp(3, 4, 2)
        method = methods.Rifle(model, resets=2, total_steps=12)
        resets = []
        for step in range(1, 25):
            if step == 13:
                method.new_task()
            before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
            method.step()
            if moved := changed(before, model.state_dict()):
                assert moved == {"2.weight", "2.bias"}
                resets.append(step)
        assert resets == [4, 8, 16, 20]

    def test_goes_on_counting_in_the_middle_of_a_period(self):
        one, two = mlp(3, 4, 2), mlp(3, 4, 2)
        first, second = (methods.Rifle(model, total_steps=8, seed=i) for i, model in enumerate((one, two)))
        for _ in range(3):
            first.step()
        second.load_state_dict(first.state_dict())
        two.load_state_dict(one.state_dict())
        before = one[2].weight.detach().clone()
        for method in (first, second):
            method.step()
        assert not torch.equal(one[2].weight, before)
        assert torch.equal(one[2].weight, two[2].weight)

    @pytest.mark.parametrize(("policy", "left"), [("keep", 4), ("clear_moments", 4), ("clear_all", 2)])
    def test_what_the_optimizer_forgets_of_the_head_is_a_choice(self, policy: str, left: int):
        model = mlp(3, 4, 2)
        optimizer = trained(model)
        moments = optimizer.state[model[0].weight]["exp_avg"].clone()
        method = methods.Rifle(model, optimizer_state=policy)
        method.attach(optimizer)
        method.new_task()
        assert len(optimizer.state) == left
        if policy != "clear_all":
            assert bool(optimizer.state[model[2].weight]["exp_avg"].any()) == (policy == "keep")
        assert torch.equal(optimizer.state[model[0].weight]["exp_avg"], moments)

    def test_what_cannot_be_is_said(self):
        with pytest.raises(OptionError, match="3 resets need more than 3 total_steps"):
            methods.Rifle(mlp(2, 2), resets=3, total_steps=3)
        with pytest.raises(ModelError, match=r"no nn\.Linear"):
            methods.Rifle(nn.Conv2d(1, 1, 1))
