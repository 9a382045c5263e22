"""Chains of layers with weights of very unequal size, and their norm written out literally."""

import torch
from torch import nn

ORDERS = [(1, 1), (2, 2), (1, 2), (2, 1)]


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(12, 6), nn.ReLU(), nn.Linear(6, 5), nn.LeakyReLU(), nn.Linear(5, 3)), (3, 2, 2)


def deep():
    layers = [layer for _ in range(6) for layer in (nn.Linear(4, 4), nn.ReLU(), nn.Dropout(0.1))]
    return nn.Sequential(nn.Sequential(*layers), nn.Linear(4, 2), nn.LogSoftmax(1)), (4,)


def cnn():
    first = [nn.Conv2d(2, 4, 3, bias=False), nn.PReLU(4), nn.MaxPool2d(2), nn.Conv2d(4, 3, 2, stride=2), nn.ReLU()]
    return nn.Sequential(*first, nn.AvgPool2d(2), nn.Flatten(), nn.Linear(12, 5), nn.ReLU(), nn.Linear(5, 2)), (2, 20, 20)


def grouped():
    last = [nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(4, 3)]
    return nn.Sequential(nn.Conv1d(4, 6, 3, groups=2), nn.ReLU(), nn.Conv1d(6, 4, 2, groups=2), nn.ReLU(), *last), (4, 9)


def transposed():
    hidden = nn.ConvTranspose2d(4, 6, 2, groups=2)
    return nn.Sequential(nn.ConvTranspose2d(3, 4, 2), nn.ReLU(), hidden, nn.ReLU(), nn.Conv2d(6, 2, 1)), (3, 4, 4)


NETWORKS = [mlp, deep, cnn, grouped, transposed]


def two_units():
    """Two hidden units: 1, -3 and 0, 9 come in, -16 and 4 go out."""
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1))
    net[0].weight.data = torch.tensor([[1.0, -3.0], [0.0, 9.0]])
    net[2].weight.data = torch.tensor([[-16.0, 4.0]])
    return net


def make(build, seed=0):
    """A network with random weights and biases of very unequal size, in float64."""
    torch.manual_seed(seed)
    net, shape = build()
    net.double().eval()
    with torch.no_grad():
        for p in net.parameters():
            if not any(p is m.weight for m in net.modules() if isinstance(m, nn.PReLU)):
                p.copy_(torch.randn_like(p) * torch.randn(p.shape[0], *[1] * (p.ndim - 1)).exp() * torch.rand(()).mul(3).exp())
    return net, torch.randn(5, *shape, dtype=torch.float64)


def layers(net):
    return [m for m in net.modules() if hasattr(m, "weight") and not isinstance(m, nn.PReLU)]


def columns(layer):
    """The weight as a matrix from every single entry of the input to every unit, literally, group by group."""
    weight, groups = layer.weight, getattr(layer, "groups", 1)
    if isinstance(layer, nn.modules.conv._ConvTransposeNd):
        parts = [part.transpose(0, 1) for part in weight.chunk(groups)]
    else:
        parts = list(weight.chunk(groups))
    rows = []
    for g, part in enumerate(parts):
        for row in part:
            cells = [torch.zeros(row[0].numel(), dtype=weight.dtype)] * (len(row) * groups)
            cells[g * len(row) : (g + 1) * len(row)] = [cell.flatten() for cell in row]
            rows.append(torch.stack(cells))
    return torch.stack(rows)  # units x inputs x kernel


def literal_norm(matrices, logs, p, q):
    """‖W‖_{p,q} after every hidden unit was scaled by its own factor."""
    sizes = [len(matrix) for matrix in matrices[:-1]]
    scales = [None, *logs.exp().split(sizes), None]
    total = 0
    for matrix, before, units in zip(matrices, scales[:-1], scales[1:], strict=True):
        if units is not None:
            matrix = matrix * units.view(-1, 1, 1)
        if before is not None:
            matrix = matrix / before.repeat_interleave(matrix.shape[1] // len(before)).view(1, -1, 1)
        total = total + matrix.abs().pow(p).sum((1, 2)).pow(q / p).sum()
    return total ** (1 / q)
