"""RIFLE, LLF, Knowledge Evolution, LURE, Layerwise, S&P with fresh noise, FIRE, DASH: what a new task draws anew or shrinks."""

import copy
from itertools import pairwise, product
from math import sqrt

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from swr import methods
from swr.errors import ModelError, OptionError
from swr.methods.dash import shrunk
from swr.methods.fire import isometric, isometry
from swr.methods.knowledge_evolution import random_masks, slim_masks
from swr.methods.layerwise import registered_blocks, statistics
from swr.methods.lure import least
from swr.methods.rifle import boundaries
from swr.methods.tools.fresh import fresh_values, inside
from swr.methods.tools.layers import Affine, affine_layers
from swr.methods.tools.loss_gradients import gradients

from .methods_table import Loop, changed


def mlp(*widths: int, bias: bool = True) -> nn.Sequential:
    layers = [nn.Linear(a, b, bias=bias) for a, b in pairwise(widths)]
    return nn.Sequential(*(module for layer in layers[:-1] for module in (layer, nn.ReLU())), layers[-1])


def set_to(tensor: Tensor, value: list) -> None:
    with torch.no_grad():
        tensor.copy_(torch.tensor(value))


def trained(model: nn.Module, steps: int = 3) -> torch.optim.Adam:
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    inputs = next(model.parameters()).shape[1]
    for step in range(steps):
        optimizer.zero_grad()
        model(torch.randn(8, inputs, generator=torch.Generator().manual_seed(step))).square().mean().backward()
        optimizer.step()
    return optimizer


class TestFreshValues:
    def test_are_drawn_with_the_layers_own_initialiser_and_leave_the_layer_and_its_statistics_alone(self):
        layer, norm = nn.Linear(400, 3), nn.BatchNorm1d(3)
        norm(torch.randn(5, 3))
        before = {**layer.state_dict(), **{f"n.{k}": v.clone() for k, v in norm.state_dict().items()}}
        before = {name: value.clone() for name, value in before.items()}
        fresh = fresh_values([layer, norm], torch.Generator().manual_seed(0))
        after = {**layer.state_dict(), **{f"n.{k}": v for k, v in norm.state_dict().items()}}
        assert not changed(before, after)
        assert not torch.equal(fresh[layer.weight], layer.weight)
        assert fresh[layer.weight].abs().max() <= 1 / sqrt(400)
        assert fresh[layer.weight].std() == pytest.approx(1 / sqrt(1200), rel=0.1)
        assert torch.equal(fresh[norm.weight], torch.ones(3))

    def test_restore_the_layer_when_the_initialiser_fails(self):
        def failing(layer: nn.Module) -> None:
            nn.init.zeros_(layer.weight)
            raise RuntimeError("no")

        layer = nn.Linear(2, 2)
        before = layer.weight.detach().clone()
        with pytest.raises(RuntimeError, match="no"):
            fresh_values([layer], torch.Generator(), failing)
        assert torch.equal(layer.weight, before)

    def test_names_that_are_not_there_are_said(self):
        with pytest.raises(OptionError, match=r"found 'head'; the model has 0, 1, 2"):
            inside(mlp(2, 2, 2), ["head"])
        with pytest.raises(OptionError, match="a list of names, found '0'"):
            inside(mlp(2, 2, 2), "0")


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


class TestRifle:
    def test_examples(self):
        assert boundaries(40, 1) == (20,)
        assert boundaries(12, 2) == (4, 8)
        assert boundaries(7, 2) == (2, 4)  # as equal as can be, and no short period behind

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


class TestLaterLayerForgetting:
    def test_example_keeps_the_early_layers_and_draws_the_later_anew(self):
        torch.manual_seed(0)
        model = mlp(3, 4, 4, 2)
        initial = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        method = methods.LaterLayerForgetting(model, first=2)
        method.attach(trained(model))
        before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        method.new_task()
        assert changed(before, model.state_dict()) == {"4.weight"}
        assert not torch.equal(model[4].weight, initial["4.weight"])
        assert not (model[4].weight == before["4.weight"]).any()

    def test_a_name_stands_for_itself_and_all_that_follow(self):
        model = nn.Sequential(mlp(2, 2, 2), nn.BatchNorm1d(2), mlp(2, 2, 2))
        chosen = {"0": ["0.0", "0.2", "2.0", "2.2"], "1": ["2.0", "2.2"], "2": ["2.0", "2.2"], "2.2": ["2.2"]}
        for name, layers in chosen.items():
            found = methods.LaterLayerForgetting(model, first=name).layers
            assert [layer.name for layer in found] == [f"{layer}.weight" for layer in layers]

    def test_by_default_forgets_the_last_quarter(self):
        sizes = {3: 1, 4: 1, 5: 2, 16: 4, 21: 6}  # 21: a ResNet-18, whose layer4 and fc have 6
        for layers, forgotten in sizes.items():
            assert len(methods.LaterLayerForgetting(mlp(*[2] * (layers + 1))).layers) == forgotten

    def test_what_cannot_be_is_said(self):
        with pytest.raises(OptionError, match="at most 2"):
            methods.LaterLayerForgetting(mlp(2, 2, 2), first=3)
        with pytest.raises(OptionError, match="no module 'layer4'"):
            methods.LaterLayerForgetting(mlp(2, 2, 2), first="layer4")


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


class TestLure:
    def test_example_draws_what_the_loss_depends_on_least_not_what_is_smallest(self):
        model = nn.Linear(4, 1, bias=False)
        set_to(model.weight, [[1.0, -2.0, 0.5, 4.0]])
        batch = torch.tensor([[0.1, 0.2, -0.4, 0.01]]), torch.zeros(1)
        method = methods.Lure(model, part=0.25)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0, momentum=0.9)
        method.attach(optimizer)
        model(batch[0]).sum().backward()
        optimizer.step()
        before = model.weight.detach().clone()
        method.new_task([batch], lambda outputs, targets: outputs.sum())
        assert (model.weight == before).tolist() == [[True, True, True, False]]
        assert abs(model.weight[0, 3].item()) <= 0.5
        kept = [[0.1, 0.2, -0.4, 0.0]]
        torch.testing.assert_close(optimizer.state[model.weight]["momentum_buffer"], torch.tensor(kept))

    def test_adds_up_the_sizes_of_the_gradients_of_a_few_batches(self):
        model = nn.Linear(3, 1, bias=False)
        set_to(model.weight, [[1.0, 1.0, 1.0]])
        batches = [torch.tensor([[1.0, -0.6, 0.7]]), torch.tensor([[-1.0, -0.6, 0.6]]), torch.tensor([[0.0, 9.0, 0.0]])]
        pairs = [(inputs, torch.zeros(1)) for inputs in batches]
        methods.Lure(model, part=0.34).new_task(pairs, lambda outputs, targets: outputs.sum())
        assert (model.weight == 1.0).tolist() == [[True, False, True]]  # 2, 1.2, 1.3; the third batch is not looked at

    def test_ranks_the_weights_of_all_layers_together(self):
        model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 1, bias=False))
        set_to(model[0].weight, [[1.0, 2.0], [3.5, 4.0]])
        set_to(model[1].weight, [[1.0, 1.0]])  # saliencies 1, 2, 3.5, 4 and 3, 7.5
        methods.Lure(model, part=0.34).new_task([(torch.ones(1, 2), torch.zeros(1))], lambda outputs, targets: outputs.sum())
        assert (model[0].weight == torch.tensor([[1.0, 2.0], [3.5, 4.0]])).tolist() == [[False, False], [True, True]]
        assert model[1].weight.tolist() == [[1.0, 1.0]]

    def test_the_quantile_is_of_all_tensors_together(self):
        masks = least([torch.tensor([1.0, 2.0]), torch.tensor([[0.1], [0.2], [0.3]])], 0.6)
        assert [mask.flatten().tolist() for mask in masks] == [[False, False], [True, True, True]]
        assert not any(mask.any() for mask in least([torch.ones(3)], 0.3))


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

    def test_normalises_behind_the_last_kept_block_with_the_first_training_batch_and_then_no_more(self):
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


class TestDash:
    rows = torch.tensor([[3.0, 4.0], [1.0, 0.0]])
    descent = torch.tensor([[4.0, 3.0], [0.0, -1.0]])

    def test_examples(self):
        torch.testing.assert_close(shrunk(self.rows, self.descent, 0.3), torch.tensor([[2.88, 3.84], [0.3, 0.0]]))
        filters, downhill = self.rows.view(1, 2, 1, 2), self.descent.view(1, 2, 1, 2)
        expected = torch.tensor([[2.88, 3.84], [0.3, 0.0]]).view(1, 2, 1, 2)
        torch.testing.assert_close(shrunk(filters, downhill, 0.3), expected)  # one cosine for each kernel, not each filter
        bias = self.rows.flatten()
        cosine = 24 / (sqrt(26) * sqrt(26))
        torch.testing.assert_close(shrunk(bias, self.descent.flatten(), 0.3), cosine * bias)

    def test_small_gradients_have_directions_too_and_no_gradient_agrees_with_nothing(self):
        torch.testing.assert_close(shrunk(self.rows, 1e-12 * self.descent, 0.3), shrunk(self.rows, self.descent, 0.3))
        torch.testing.assert_close(shrunk(self.rows, torch.zeros(2, 2), 0.3), 0.3 * self.rows)

    def test_averages_the_negative_gradients_of_the_batches_in_order(self):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Conv2d(2, 3, 2), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(27, 4))
        model.to(memory_format=torch.channels_last)
        batches = [(torch.randn(5, 2, 4, 4), torch.randint(4, (5,))) for _ in range(3)]
        literal, twin = copy.deepcopy(model), copy.deepcopy(model)
        sums = {name: torch.zeros_like(p) for name, p in literal.named_parameters()}
        for inputs, targets in batches:
            literal.zero_grad()
            F.cross_entropy(literal(inputs), targets).backward()
            sums = {name: 0.6 * sums[name] - 0.4 * p.grad for name, p in literal.named_parameters()}
        methods.Dash(model, floor=0.1, rate=0.4).new_task(batches, F.cross_entropy)
        for name, old in twin.state_dict().items():
            new = model.state_dict()[name]
            if name.startswith("1."):
                assert torch.equal(new, old)
                continue
            for at in {1: [...], 2: range(4), 4: product(range(3), range(2))}[old.ndim]:
                cosine = torch.cosine_similarity(sums[name][at].flatten(), old[at].flatten(), dim=0, eps=1e-30)
                torch.testing.assert_close(new[at], old[at] * cosine.clamp(0.1, 1))


class TestFire:
    def test_examples(self):
        identity, quarter_turn = torch.eye(2), torch.tensor([[0.0, -1.0], [1.0, 0.0]])
        torch.testing.assert_close(isometry(torch.diag(torch.tensor([2.0, 1.0]))), identity)
        torch.testing.assert_close(isometry(torch.tensor([[0.0, -2.0], [1.0, 0.0]])), quarter_turn)
        unfinished = isometry(torch.diag(torch.tensor([3.0, 0.01])))
        torch.testing.assert_close(unfinished, torch.diag(torch.tensor([1.0, 0.1903])), atol=1e-4, rtol=0)
        torch.testing.assert_close(isometry(torch.diag(torch.tensor([3.0, 0.01])), None), identity)
        layer = nn.Linear(2, 3, bias=False)
        set_to(layer.weight, [[3.0, 0.0], [0.0, 4.0], [0.0, 0.0]])
        methods.Fire(layer).new_task()
        torch.testing.assert_close(layer.weight.detach(), 1.2247 * torch.eye(3, 2), atol=1e-4, rtol=0)

    @pytest.mark.parametrize(("start", "end"), [(0.05, 0.9995), (0.03, 0.968), (0.02, 0.849), (0.01, 0.529), (0.001, 0.058)])
    def test_small_singular_values_do_not_get_there(self, start: float, end: float):
        found = isometry(torch.diag(torch.tensor([sqrt(1 - start**2), start], dtype=torch.float64)))
        assert found[1, 1].item() == pytest.approx(end, abs=6e-4)

    @pytest.mark.parametrize("shape", [(6, 4), (4, 6), (5, 5)])
    def test_is_the_polar_factor_and_no_isometry_is_nearer(self, shape: tuple[int, int]):
        torch.manual_seed(0)
        weight = torch.randn(*shape, dtype=torch.float64)
        u, _, vh = torch.linalg.svd(weight, full_matrices=False)
        torch.testing.assert_close(isometry(weight, 40), u @ vh)
        torch.testing.assert_close(isometry(weight, None), u @ vh)
        for _ in range(20):
            other = torch.linalg.qr(torch.randn(max(shape), min(shape), dtype=torch.float64)).Q
            other = other if shape[0] >= shape[1] else other.mT
            assert (weight - u @ vh).norm() < (weight - other).norm()

    @pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
    @pytest.mark.parametrize(
        "layer",
        [nn.Conv2d(3, 6, (2, 3)), nn.Conv2d(4, 6, 3, groups=2), nn.ConvTranspose2d(3, 5, 2)],
        ids=["plain", "groups", "transposed"],
    )
    def test_convolutions_tap_by_tap_and_group_by_group(self, layer: nn.Module, layout: torch.memory_format):
        torch.manual_seed(0)
        layer = copy.deepcopy(layer).double().to(memory_format=layout)
        before = layer.weight.detach().clone()
        methods.Fire(layer, iterations=None).new_task()
        groups, taps = layer.groups, layer.kernel_size[0] * layer.kernel_size[1]
        for old, new in zip(before.chunk(groups), layer.weight.detach().chunk(groups), strict=True):
            for i in range(layer.kernel_size[0]):
                for j in range(layer.kernel_size[1]):
                    tap = old[:, :, i, j].mT if layer.transposed else old[:, :, i, j]
                    u, _, vh = torch.linalg.svd(tap, full_matrices=False)
                    expected = u @ vh * sqrt(tap.shape[0] / tap.shape[1]) / taps
                    torch.testing.assert_close(new[:, :, i, j].mT if layer.transposed else new[:, :, i, j], expected)

    def test_zeros_stay_zeros_and_half_precision_is_computed_in_single(self):
        assert not isometry(torch.zeros(2, 3)).any()
        assert not isometry(torch.zeros(2, 3), None).any()
        layer = nn.Linear(8, 8, bias=False)
        half = copy.deepcopy(layer).bfloat16()
        layer.weight.data.copy_(half.weight)
        torch.testing.assert_close(isometric(affine_layers(half)[0]), isometric(affine_layers(layer)[0]))

    def test_named_layers_only(self):
        model = mlp(3, 4, 2)
        before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        methods.Fire(model, layers=["2"]).new_task()
        assert changed(before, model.state_dict()) == {"2.weight"}
