"""Hare & Tortoise: the hare trains, the tortoise is evaluated."""

import pytest
import torch
from torch import nn

from swr import methods

from .anneal_helpers import entries, vector


class TestHareTortoise:
    def test_example(self):
        layer = vector(1.0)
        method = methods.HareTortoise(layer, momentum=0.9, every=1)
        layer.weight.data.fill_(2.0)
        method.step()
        assert entries(layer) == [1.1]  # φ <- 0.9 + 0.2, and θ <- φ
        layer.weight.data.fill_(2.1)
        assert method.state_dict()["slow"]["weight"].item() == pytest.approx(1.1)  # its own storage
        method.step()
        assert entries(layer) == [1.2]

    def test_resets_at_every_rth_step_only(self):
        layer = vector(0.0)
        method = methods.HareTortoise(layer, momentum=0.5, every=3)
        found = []
        for _ in range(6):
            layer.weight.data.add_(1.0)
            method.step()
            found.append(layer.weight.item())
        assert found == [1, 2, 2.125, 3.125, 4.125, pytest.approx(2.125 + 2.125)]

    def test_the_model_is_evaluated_with_the_tortoise_and_trained_with_the_hare(self):
        layer = vector(1.0)
        method = methods.HareTortoise(layer, momentum=0.9, every=float("inf"))
        layer.weight.data.fill_(2.0)
        method.step()
        one = torch.ones(1, 1)
        assert layer.train()(one).item() == pytest.approx(2.0)
        with torch.inference_mode():
            assert layer.eval()(one).item() == pytest.approx(1.1)
        with torch.no_grad():
            assert layer(one).item() == pytest.approx(1.1)
        assert layer(one).item() == pytest.approx(1.1)
        assert entries(layer) == [2.0]
        with method.tortoise():
            assert entries(layer) == [1.1]
            assert layer(one).item() == pytest.approx(1.1)
            assert entries(layer) == [1.1]
        assert entries(layer) == [2.0]
        method.close()
        assert layer(one).item() == pytest.approx(2.0)

    def test_the_hare_is_back_after_a_call_that_fails_and_can_be_trained_on(self):
        layer = vector(1.0)
        method = methods.HareTortoise(layer, momentum=0.9)
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
        method.attach(optimizer)
        layer.weight.data.fill_(2.0)
        with pytest.raises(RuntimeError, match="shapes"), torch.no_grad():
            layer.eval()(torch.ones(1, 7))
        assert entries(layer) == [2.0]
        with torch.inference_mode():
            layer(torch.ones(1, 1))
        layer.train()(torch.ones(1, 1)).sum().backward()
        optimizer.step()
        assert entries(layer) == [1.9]

    def test_averages_running_statistics_and_leaves_whole_numbers_alone(self):
        model = nn.BatchNorm1d(2)
        method = methods.HareTortoise(model, momentum=0.75, every=2)
        for _ in range(2):
            model.running_mean.fill_(4.0)
            model.num_batches_tracked.add_(1)
            method.step()
        assert model.running_mean.tolist() == [1.75, 1.75]
        assert model.num_batches_tracked.item() == 2
        assert model.num_batches_tracked.dtype == torch.int64
