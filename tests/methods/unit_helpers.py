"""Networks and helpers of several tests."""

import torch
from torch import Tensor, nn

from swr import methods


def small(bias: bool = True) -> nn.Sequential:
    """Two inputs that are each other's unit vectors give h = [[1, 0, 2], [3, 0, 2]]."""
    model = nn.Sequential(nn.Linear(2, 3, bias), nn.ReLU(), nn.Linear(3, 2, bias))
    with torch.no_grad():
        model[0].weight.copy_(torch.tensor([[1.0, 3.0], [0.0, 0.0], [2.0, 2.0]]))
        model[2].weight.copy_(torch.tensor([[1.0, 5.0, -1.0], [-1.0, 5.0, 0.0]]))
        if bias:
            model[0].bias.zero_()
    return model


X = torch.eye(2)


def tensors(model: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def passed(model: nn.Module, method: methods.Method, inputs: Tensor = X) -> None:
    """A training pass and a step by hand, without an optimizer to move the weights."""
    model(inputs)
    method.step()
