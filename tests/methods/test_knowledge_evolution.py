"""Knowledge Evolution: the masks, and the network of its own that they keep."""

import copy

import pytest
import torch
from torch import nn

from swr import methods
from swr.methods.knowledge_evolution import random_masks, slim_masks
from swr.methods.tools.layers import Affine, affine_layers

from .reset_helpers import mlp, trained


class TestKnowledgeEvolution:
    def test_example_keeps_the_corner_of_inner_layers_all_inputs_of_the_first_and_all_outputs_of_the_last(self):
        torch.manual_seed(0)
        model = mlp(3, 4, 4, 3)
        method = methods.KnowledgeEvolution(model, split=0.5)
        optimizer = trained(model)
        method.attach(optimizer)
        before = copy.deepcopy(model)
        method.new_task()
        kept = [old.weight == new.weight for old, new in zip(before[::2], model[::2], strict=True)]
        inner, last, first = torch.zeros(4, 4, dtype=bool), torch.zeros(3, 4, dtype=bool), torch.zeros(4, 3, dtype=bool)
        inner[:2, :2], last[:, :2], first[:2] = True, True, True
        for found, expected, layer in zip(kept, (first, inner, last), model[::2], strict=True):
            assert torch.equal(found, expected)
            assert torch.equal(optimizer.state[layer.weight]["exp_avg"][~expected], torch.zeros(int((~expected).sum())))
            assert optimizer.state[layer.weight]["exp_avg"][expected].any()
        assert all(torch.equal(old.bias, new.bias) for old, new in zip(before[::2], model[::2], strict=True))

    def test_kept_channels_and_the_columns_they_flatten_to_are_a_network_of_their_own(self):
        torch.manual_seed(0)
        convolution, linear, head = nn.Conv2d(2, 5, 3), nn.Linear(5 * 4, 7), nn.Linear(7, 3)
        model = nn.Sequential(convolution, nn.ReLU(), nn.Flatten(), linear, nn.ReLU(), head)
        masks = slim_masks(affine_layers(model), 0.5)
        assert masks[0][:3].all()
        assert not masks[0][3:].any()
        assert masks[1][:4, : 3 * 4].all()
        assert masks[1].sum() == 4 * 12
        slim = nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(12, 4), nn.ReLU(), nn.Linear(4, 3))
        with torch.no_grad():
            for small, large, mask in zip((slim[0], slim[3], slim[5]), (convolution, linear, head), masks, strict=True):
                small.weight.copy_(large.weight[mask].view(small.weight.shape))
                small.bias.copy_(large.bias[: len(small.bias)])
                large.weight.mul_(mask)
            linear.bias[4:] = 0
        torch.testing.assert_close(model(torch.ones(1, 2, 4, 4)), slim(torch.ones(1, 2, 4, 4)))

    def test_a_transposed_convolution_has_its_outputs_second(self):
        model = nn.ModuleList([nn.Conv2d(2, 4, 1), nn.ConvTranspose2d(4, 6, 1), nn.Conv2d(6, 2, 1)])
        mask = slim_masks(affine_layers(model), 0.5)[1]
        assert mask[:2, :3].all()
        assert mask.sum() == 6

    def test_random_masks_keep_a_part_and_come_back_with_the_state(self):
        layer = Affine("weight", nn.Linear(100, 100), nn.Parameter(torch.zeros(100, 100)))
        assert random_masks([layer], 0.8, torch.Generator().manual_seed(0))[0].float().mean() == pytest.approx(0.8, abs=0.02)
        one, two = (methods.KnowledgeEvolution(mlp(5, 6, 2), mask="wels", seed=seed) for seed in (0, 1))
        assert not torch.equal(one._masks["0.weight"], two._masks["0.weight"])
        two.load_state_dict(one.state_dict())
        assert torch.equal(one._masks["0.weight"], two._masks["0.weight"])

    def test_a_whole_number_of_channels_is_not_rounded_up(self):
        layers = [Affine("weight", nn.Linear(30, 30), nn.Parameter(torch.zeros(30, 30)))] * 3
        assert slim_masks(layers, 0.1)[1].sum() == 9
