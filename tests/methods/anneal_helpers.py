"""Networks and helpers of several tests."""

import torch
from torch import nn


def vector(*values: float) -> nn.Linear:
    layer = nn.Linear(len(values), 1, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([values]))
    return layer


def entries(layer: nn.Linear) -> list[float]:
    return [round(value, 5) for value in layer.weight.flatten().tolist()]
