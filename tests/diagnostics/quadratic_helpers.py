"""A model whose gradient and Hessian are known by hand."""

import torch
from torch import nn


class Quadratic(nn.Module):
    """L = ½ θᵀ H θ."""

    def __init__(self, hessian):
        super().__init__()
        self.theta = nn.Parameter(torch.ones(len(hessian), dtype=torch.float64))
        self.register_buffer("hessian", hessian)

    def forward(self, x):
        return 0.5 * self.theta @ self.hessian @ self.theta


def identity_loss(outputs, targets):
    return outputs
