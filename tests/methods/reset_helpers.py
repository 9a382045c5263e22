"""Networks and helpers of several tests."""

from itertools import pairwise

import torch
from torch import Tensor, nn


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
