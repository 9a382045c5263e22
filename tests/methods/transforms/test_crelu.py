"""CReLU: both halves, wider layers, and what cannot become wider."""

import pytest
import torch
from torch import Tensor, nn

from swr import methods
from swr.errors import ModelError

from ..methods_table import Loop, changed
from ..unit_helpers import X, small


class TestCReLU:
    def test_both_halves_stand_side_by_side(self):
        assert methods.CReLU()(torch.tensor([1.0, -2.0])).tolist() == [1.0, 0.0, 0.0, 2.0]
        assert methods.CReLU(1)(torch.zeros(2, 3, 4, 5)).shape == (2, 6, 4, 5)

    @pytest.mark.parametrize("network", ["mlp", "cnn", "cnnbn", "vgg16"])
    def test_the_papers_networks_become_wider_after_each_relu_and_train(self, network: str):
        loop = Loop(network, "vanilla", {})
        inputs = loop.batch(0)[0]
        before = loop.tensors()
        model = methods.crelu(loop.model, inputs)
        assert not changed(before, loop.tensors())
        layers = [(old, new) for old, new in zip(loop.model, model, strict=True) if isinstance(old, (nn.Linear, nn.Conv2d))]
        first, *others = layers
        assert torch.equal(first[0].weight, first[1].weight)
        for old, new in others:
            assert new.weight.shape[1] == 2 * old.weight.shape[1]
            bound = new.weight[0].numel() ** -0.5
            assert bound / 2 < new.weight.abs().max() <= bound
        assert not any(isinstance(module, nn.ReLU) for module in model.modules())
        model(inputs).sum().backward()
        assert all(p.grad is not None for p in model.parameters())

    def test_every_unit_has_exactly_one_live_half(self):
        model = methods.crelu(nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2)), X)
        halves = model[1](model[0](torch.randn(50, 2))).view(50, 2, 3)
        assert ((halves > 0).sum(1) == 1).all()

    def test_tokens_are_joined_along_their_features_and_images_along_their_channels(self):
        tokens = methods.crelu(nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2)), torch.zeros(2, 7, 4))
        assert tokens[1].axis == -1
        signals = nn.Sequential(nn.Conv1d(3, 4, 3), nn.ReLU(), nn.BatchNorm1d(4), nn.Conv1d(4, 2, 1))
        wide = methods.crelu(signals, torch.zeros(2, 3, 9))
        assert wide[1].axis == 1
        assert wide[2].num_features == wide[2].running_mean.shape[0] == 8
        assert wide[3].in_channels == 8

    def test_a_relu_at_the_output_stays(self):
        model = methods.crelu(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2), nn.ReLU()), torch.zeros(2, 4))
        assert isinstance(model[3], nn.ReLU)
        assert model(torch.zeros(2, 4)).shape == (2, 2)

    def test_draws_depend_on_the_seed_alone(self):
        model, state = small(), torch.get_rng_state()
        one, same, other = (methods.crelu(model, X, seed=seed)[2].weight for seed in (0, 0, 1))
        assert torch.equal(one, same)
        assert not torch.equal(one, other)
        assert torch.equal(torch.get_rng_state(), state)

    def test_what_cannot_become_wider_is_refused(self):
        class Residual(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.fc, self.act = nn.Linear(4, 4), nn.ReLU()

            def forward(self, x: Tensor) -> Tensor:
                return x + self.act(self.fc(x))

        with pytest.raises(ModelError, match="residual block"):
            methods.crelu(Residual(), torch.zeros(2, 4))
        with pytest.raises(ModelError, match="in groups"):
            methods.crelu(nn.Sequential(nn.Conv2d(2, 2, 1), nn.ReLU(), nn.Conv2d(2, 2, 1, groups=2)), torch.zeros(1, 2, 3, 3))
        with pytest.raises(ModelError, match=r"no nn\.ReLU"):
            methods.crelu(nn.Linear(2, 1), X)
