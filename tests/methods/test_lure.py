"""LURE re-initialises what the loss depends on least."""

import torch
from torch import nn

from swr import methods
from swr.methods.lure import least

from .reset_helpers import set_to


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
