"""Layerwise: one block more at each task, its norms, and the fixed normalisation after it."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from swr import methods
from swr.errors import OptionError
from swr.methods.layerwise import registered_blocks, statistics

from .methods_table import changed
from .reset_helpers import mlp, set_to, trained


class TestLayerwise:
    def test_example(self):
        torch.manual_seed(0)
        model = mlp(2, 1, 2)
        set_to(model[0].weight, [[1.5, 2.0]])
        set_to(model[0].bias, [0.0])
        method = methods.Layerwise(model)
        initial = copy.deepcopy(model)
        set_to(model[0].weight, [[3.0, 4.0]])
        set_to(model[0].bias, [0.2])
        set_to(model[2].weight, [[1.0], [1.0]])
        method.new_task()
        torch.testing.assert_close(model[0].weight, torch.tensor([[1.5, 2.0]]))
        assert model[0].bias.item() == 0.0
        assert not (model[2].weight == 1.0).any()
        assert not (model[2].weight == initial[2].weight).any()

    def test_a_bias_that_began_as_zero_is_kept_when_asked(self):
        model = mlp(2, 1, 2)
        set_to(model[0].bias, [0.0])
        method = methods.Layerwise(model, zero_norm="keep")
        set_to(model[0].bias, [0.2])
        method.new_task()
        assert model[0].bias.item() == pytest.approx(0.2)

    def test_keeps_one_block_more_at_each_task_and_in_the_end_only_rescales(self):
        torch.manual_seed(0)
        model = mlp(3, 4, 4, 2)
        method = methods.Layerwise(model, rounds=2)
        norms = {name: p.detach().norm() for name, p in model.named_parameters()}
        for k in (1, 1, 2, 2, 3, 3):
            trained(model)
            before = {name: p.detach().clone() for name, p in model.named_parameters()}
            method.new_task()
            for name, p in model.named_parameters():
                parallel = F.cosine_similarity(p.detach().flatten(), before[name].flatten(), dim=0)
                kept = int(name[0]) // 2 < k
                assert (parallel > 1 - 1e-6) == kept, name
                if kept:
                    torch.testing.assert_close(p.detach().norm(), norms[name])

    def test_normalises_after_the_last_kept_block_with_the_first_training_batch_and_then_no_more(self):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Conv2d(1, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(27, 4), nn.ReLU(), nn.Linear(4, 2))
        method = methods.Layerwise(model)
        seen: list[Tensor] = []
        model[2].register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0].detach()))
        first, second = torch.randn(6, 1, 4, 4), 3 * torch.randn(6, 1, 4, 4)
        method.new_task()
        model.eval()(first)
        plain = seen[-1]
        model.train()(first)
        torch.testing.assert_close(seen[-1].mean((0, 2, 3)), torch.zeros(3), atol=1e-6, rtol=0)
        torch.testing.assert_close(seen[-1].std((0, 2, 3), correction=0), torch.ones(3))
        mean, deviation = plain.mean((0, 2, 3), keepdim=True), plain.std((0, 2, 3), correction=0, keepdim=True)
        torch.testing.assert_close(seen[-1], (plain - mean) / deviation)
        model.train()(second)
        assert (seen[-1].std((0, 2, 3)) > 1.5).all()  # fixed
        model.eval()(first)
        torch.testing.assert_close(seen[-1], (plain - mean) / deviation)
        method.new_task()
        assert set(method.state_dict()["statistics"]) == {"1"}  # the first stays when the second is inserted
        model.train()(first)
        assert set(method.state_dict()["statistics"]) == {"1", "2"}
        method.close()
        model.eval()(first)
        assert seen[-1].min() >= 0

    def test_without_normalisation_the_network_has_no_hooks(self):
        model = mlp(3, 4, 2)
        methods.Layerwise(model, normalise=False).new_task()
        assert not any(module._forward_hooks for module in model.modules())

    def test_a_constant_channel_is_shifted_only(self):
        mean, deviation = statistics(torch.tensor([[1.0, 2.0], [1.0, 4.0]]), -1)
        assert mean.tolist() == [[1.0, 3.0]]
        assert deviation.tolist() == [[1.0, 1.0]]

    def test_blocks_begin_with_a_layer_and_a_stem_is_rescaled_never_drawn(self):
        model = nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 3), nn.LayerNorm(3), nn.ReLU(), nn.Linear(3, 2))
        blocks = registered_blocks(model)
        assert [block.layers for block in blocks] == [[model[1], model[2]], [model[4]]]
        assert blocks[0].end is model[3]
        method = methods.Layerwise(model)
        nn.init.constant_(model[0].weight, 7.0)
        method.new_task()
        torch.testing.assert_close(model[0].weight, torch.ones(2))

    def test_named_blocks_follow_the_names(self):
        torch.manual_seed(0)
        model = nn.ModuleDict({"head": nn.Linear(2, 2), "body": mlp(2, 2, 2)})
        before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        methods.Layerwise(model, blocks=["body", "head"]).new_task()
        assert {"head.weight", "head.bias"} == {name for name in changed(before, model.state_dict()) if "head" in name}
        for name in ("body.0.weight", "body.2.weight"):
            torch.testing.assert_close(model.state_dict()[name], before[name])
        with pytest.raises(OptionError, match=r"block 'body\.1' has no parameters"):
            methods.Layerwise(model, blocks=["body.1"])
