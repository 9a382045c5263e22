"""DSD prunes, keeps pruned weights at zero, and lets them return without a jump."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from swr import methods
from swr.errors import StateError
from swr.methods.dsd import largest

from .anneal_helpers import entries, vector
from .methods_table import Loop


class TestDSD:
    def test_example(self):
        layer = vector(0.1, -0.5, 0.3, -0.05)
        method = methods.DSD(layer, sparsity=0.5)
        method.new_task()
        assert method.sparse
        assert entries(layer) == [0, -0.5, 0.3, 0]
        layer.weight.data.add_(1)
        method.step()
        assert entries(layer) == [0, 0.5, 1.3, 0]
        method.new_task()
        assert not method.sparse
        layer.weight.data.add_(1)
        method.step()
        assert entries(layer) == [1, 1.5, 2.3, 1]

    def test_of_equal_magnitudes_just_as_many_go_as_asked(self):
        assert largest(torch.ones(10), 0.3).sum() == 7
        assert largest(torch.zeros(3, 3), 1.0).sum() == 0
        assert largest(torch.ones(2, 2), 0.0).all()
        mask = largest(torch.arange(16.0).view(1, 4, 2, 2).to(memory_format=torch.channels_last), 0.5)
        assert mask.flatten().tolist() == [False] * 8 + [True] * 8

    @pytest.mark.parametrize("kind", ["adam", "sgd"])
    def test_pruned_weights_stay_zero_and_return_without_a_jump(self, kind: str):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
        make = {"adam": torch.optim.Adam, "sgd": lambda p, lr: torch.optim.SGD(p, lr=lr, momentum=0.9)}[kind]
        optimizer = make(model.parameters(), lr=0.01)
        method = methods.DSD(model, sparsity=0.5)
        method.attach(optimizer)
        key = "exp_avg" if kind == "adam" else "momentum_buffer"

        def train(steps: int) -> None:
            for _ in range(steps):
                optimizer.zero_grad()
                F.cross_entropy(model(torch.randn(16, 6)), torch.randint(3, (16,))).backward()
                optimizer.step()

        train(20)
        method.new_task()
        pruned = [layer.weight == 0 for layer in (model[0], model[2])]
        assert [int(mask.sum()) for mask in pruned] == [24, 12]
        biases = model[0].bias.detach().clone()
        train(20)
        for layer, mask in zip((model[0], model[2]), pruned, strict=True):
            assert not layer.weight[mask].any()
            assert layer.weight[~mask].all()
            assert not optimizer.state[layer.weight][key][mask].any()
            assert optimizer.state[layer.weight][key][~mask].any()
        assert not torch.equal(model[0].bias, biases)
        method.new_task()
        optimizer.zero_grad()
        model(torch.zeros(1, 6)).sum().mul(0).backward()  # a gradient of zero: only old moments could move them
        optimizer.step()
        assert not model[0].weight[pruned[0]].any()
        train(1)
        assert model[0].weight[pruned[0]].any()

    def test_goes_on_in_its_sparse_phase_in_a_new_object(self):
        loop, again = (Loop("mlp", "dsd", {}, seed=seed) for seed in (0, 1))
        loop.new_task()
        again.method.load_state_dict(loop.method.state_dict())
        assert again.method.sparse
        again.method.step()
        assert (again.model[1].weight == 0).equal(loop.model[1].weight == 0)
        other = Loop("cnn", "dsd", {})
        other.new_task()
        with pytest.raises(StateError, match="another model"):
            again.method.load_state_dict(other.method.state_dict())
