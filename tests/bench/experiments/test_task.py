"""What a task shows."""

import torch
from torch import nn

from swr.bench.experiments import View


def test_hidden_outputs_get_no_gradient():
    view = View(hidden=torch.tensor([1]))
    outputs = torch.tensor([[1.0, 9.0, 2.0]], requires_grad=True)
    nn.functional.cross_entropy(view.outputs(outputs), torch.tensor([0])).backward()
    assert outputs.grad[0, 1] == 0
    assert outputs.grad[0, 0] == -outputs.grad[0, 2] != 0
