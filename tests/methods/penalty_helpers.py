"""Networks and helpers of several tests."""

import numpy as np
import torch
from torch import Tensor, nn

from .methods_table import MODELS


def linear(weight: list[list[float]], bias: list[float] | None = None) -> nn.Linear:
    rows = torch.tensor(weight)
    layer = nn.Linear(rows.shape[1], rows.shape[0], bias=bias is not None)
    layer.weight.data = rows
    if bias is not None:
        layer.bias.data = torch.tensor(bias)
    return layer


def double(network: str) -> nn.Module:
    torch.manual_seed(0)
    return MODELS[network][0]().double()


def moved(model: nn.Module) -> None:
    generator = torch.Generator().manual_seed(3)
    for p in model.parameters():
        p.data += 0.1 * torch.randn(p.shape, generator=generator, dtype=p.dtype)


def gradients(value: Tensor, model: nn.Module) -> list[Tensor]:
    found = torch.autograd.grad(value, list(model.parameters()), allow_unused=True)
    return [torch.zeros_like(p) if g is None else g for g, p in zip(found, model.parameters(), strict=True)]


def close(one: Tensor, other: object, rtol: float = 1e-9, atol: float = 1e-9) -> None:
    torch.testing.assert_close(one.detach(), torch.as_tensor(other, dtype=one.dtype), rtol=rtol, atol=atol)


def svd(matrix: Tensor) -> tuple[float, np.ndarray, np.ndarray]:
    u, s, vt = np.linalg.svd(matrix.detach().numpy())
    return s[0], u[:, 0], vt[0]
