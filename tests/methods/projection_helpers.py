"""Networks and helpers of several tests."""

import numpy as np
import torch
from torch import Tensor, nn

from .methods_table import MODELS


def with_weight(weight: list[list[float]]) -> nn.Linear:
    rows = torch.tensor(weight)
    layer = nn.Linear(rows.shape[1], rows.shape[0])
    layer.weight.data = rows
    return layer


def close(one: Tensor, other: object, rtol: float = 1e-6, atol: float = 1e-7) -> None:
    torch.testing.assert_close(one.detach(), torch.as_tensor(other, dtype=one.dtype), rtol=rtol, atol=atol)


def double(network: str) -> nn.Module:
    torch.manual_seed(0)
    return MODELS[network][0]().double()


def grow(model: nn.Module, factor: float = 3.0) -> None:
    for p in model.parameters():
        p.data.mul_(factor).add_(0.01)


CONVOLUTIONS = {
    "plain": (lambda: nn.Conv2d(2, 3, 3), (2, 6, 5)),
    "stride and padding": (lambda: nn.Conv2d(2, 3, 3, stride=2, padding=1), (2, 6, 5)),
    "same": (lambda: nn.Conv2d(2, 3, 3, padding="same", dilation=2), (2, 6, 5)),
    "circular": (lambda: nn.Conv2d(2, 3, 3, padding=1, padding_mode="circular"), (2, 6, 5)),
    "groups": (lambda: nn.Conv2d(4, 4, 3, groups=2), (4, 5, 5)),
    "one dimension": (lambda: nn.Conv1d(2, 3, 4), (2, 9)),
    "transposed": (lambda: nn.ConvTranspose2d(2, 3, 3, stride=2, padding=1, output_padding=1), (2, 4, 3)),
    "transposed groups": (lambda: nn.ConvTranspose1d(4, 6, 3, groups=2), (4, 5)),
}


def matrix_of(layer: nn.Module, shape: tuple[int, ...]) -> Tensor:
    """The convolution as a matrix: its effect on every unit vector."""
    basis = torch.eye(int(np.prod(shape)), dtype=torch.float64).view(-1, *shape)
    return (layer(basis) - layer(torch.zeros_like(basis))).flatten(1).T.detach()
