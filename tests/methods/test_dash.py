"""DASH shrinks what disagrees with the gradients of the new data."""

import copy
from itertools import product
from math import sqrt

import torch
import torch.nn.functional as F
from torch import nn

from swr import methods
from swr.methods.dash import shrunk


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
