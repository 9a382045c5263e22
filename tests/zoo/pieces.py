"""Pieces that fit together in any order, and networks described by nested tuples of their names.

Every piece maps (batch, channels, length) to the same shape. A chain is a tuple of pieces; a piece is a name, or a
name with the chains it combines:

    ("conv", ("residual", ("layernorm", "linear", "relu", "linear")), "relu")
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

from .chains import RMSNorm

Piece = str | tuple
Chain = tuple[Piece, ...]

CHANNELS, LENGTH, BATCH = 16, 5, 6


class Apply(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[[Tensor], Tensor]):
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


class ChannelsLast(nn.Module):
    def __init__(self, layer: nn.Module):
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x.transpose(1, 2)).transpose(1, 2)


class Tied(nn.Module):
    """W and its transpose, with a relu between."""

    def __init__(self, channels: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(channels, channels) / channels**0.5)

    def forward(self, x: Tensor) -> Tensor:
        return self.weight.t() @ F.relu(self.weight @ x)


class Learned(nn.Module):
    """A parameter per channel, met by the input in one operation."""

    def __init__(self, channels: int, operation: Callable[[Tensor, Tensor], Tensor]):
        super().__init__()
        self.value = nn.Parameter(0.5 + torch.rand(channels, 1))
        self.operation = operation

    def forward(self, x: Tensor) -> Tensor:
        return self.operation(x, self.value)


class Attention(nn.Module):
    def __init__(self, channels: int, fused: bool):
        super().__init__()
        self.qkv, self.out, self.fused = nn.Linear(channels, 3 * channels), nn.Linear(channels, channels), fused

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.qkv(x.transpose(1, 2)).chunk(3, -1)
        if self.fused:
            out = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        else:
            out = torch.softmax(query @ key.mT / key.shape[-1] ** 0.5, -1) @ value
        return self.out(out).transpose(1, 2)


class SliceWrite(nn.Module):
    def __init__(self, channels: int):
        super().__init__()
        self.fc = nn.Conv1d(channels, channels // 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        out = torch.zeros_like(x)
        out[:, ::2] = self.fc(x)
        return out


def _frozen(layer: nn.Module) -> nn.Module:
    return layer.requires_grad_(False)


def unit(x: Tensor) -> Tensor:
    return F.normalize(x, dim=1)


def centred(x: Tensor) -> Tensor:
    return x - x.mean(1, keepdim=True)


# Homogeneous in the input and in every weight: a chain of these is free throughout.
STRAIGHT: dict[str, Callable[[int], nn.Module]] = {
    "linear": lambda c: ChannelsLast(nn.Linear(c, c)),
    "linear, no bias": lambda c: ChannelsLast(nn.Linear(c, c, bias=False)),
    "conv": lambda c: nn.Conv1d(c, c, 3, padding=1),
    "grouped conv": lambda c: nn.Conv1d(c, c, 3, padding=1, groups=c // 2),
    "transposed conv": lambda c: nn.ConvTranspose1d(c, c, 3, padding=1),
    "weight_norm conv": lambda c: weight_norm(nn.Conv1d(c, c, 3, padding=1)),
    "tied": Tied,
    "slice write": SliceWrite,
    "batchnorm": nn.BatchNorm1d,
    "layernorm": lambda c: ChannelsLast(nn.LayerNorm(c)),
    "groupnorm": lambda c: nn.GroupNorm(2, c),
    "instancenorm": lambda c: nn.InstanceNorm1d(c, affine=True, track_running_stats=True),
    "rmsnorm": lambda c: ChannelsLast(nn.RMSNorm(c)),
    "rmsnorm by hand": lambda c: ChannelsLast(RMSNorm(c)),
    "gain": lambda c: Learned(c, torch.mul),
    "quotient": lambda c: Learned(c, torch.div),
    "shift": lambda c: Learned(c, torch.add),
    "relu": lambda c: nn.ReLU(),
    "leaky relu": lambda c: nn.LeakyReLU(0.2),
    "in-place relu": lambda c: Apply(lambda x: x.clone().relu_()),
    "abs": lambda c: Apply(torch.abs),
    "squared relu": lambda c: Apply(lambda x: F.relu(x).square()),
    "average pool": lambda c: nn.AvgPool1d(3, 1, 1),
    "max pool": lambda c: nn.MaxPool1d(3, 1, 1),
    "largest so far": lambda c: Apply(lambda x: x.cummax(-1).values),
    "sum so far": lambda c: Apply(lambda x: x.cumsum(-1)),
    "unit": lambda c: Apply(unit),
    "centred": lambda c: Apply(centred),
    "shuffle": lambda c: Apply(lambda x: x.flip(1).roll(1, 2)),
}

# These hold or couple what comes before them.
RESTRICTING: dict[str, Callable[[int], nn.Module]] = {
    "gelu": lambda c: nn.GELU(),
    "tanh": lambda c: nn.Tanh(),
    "relu6": lambda c: nn.ReLU6(),
    "softmax": lambda c: nn.Softmax(1),
    "prelu": nn.PReLU,
    "constant": lambda c: Apply(lambda x: x + 0.5),
    "saturate": lambda c: Apply(lambda x: x / (1 + x.abs())),
    "attention": lambda c: Attention(c, fused=True),
    "attention by hand": lambda c: Attention(c, fused=False),
    "frozen linear": lambda c: _frozen(ChannelsLast(nn.Linear(c, c))),
    "frozen gain": lambda c: _frozen(Learned(c, torch.mul)),
}


class Residual(nn.Module):
    def __init__(self, chain: nn.Module):
        super().__init__()
        self.chain = chain

    def forward(self, x: Tensor) -> Tensor:
        return x + self.chain(x)


class Twice(Residual):
    def forward(self, x: Tensor) -> Tensor:
        return self.chain(self.chain(x))


class Branches(nn.Module):
    def __init__(self, left: nn.Module, right: nn.Module, join: Callable[[Tensor, Tensor], Tensor]):
        super().__init__()
        self.left, self.right, self.join = left, right, join

    def forward(self, x: Tensor) -> Tensor:
        return self.join(self.left(x), self.right(x))


class Concatenate(Branches):
    def __init__(self, left: nn.Module, right: nn.Module, channels: int):
        super().__init__(left, right, lambda a, b: torch.cat([a, b], 1))
        self.merge = nn.Conv1d(2 * channels, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.merge(super().forward(x))


class Split(Branches):
    def forward(self, x: Tensor) -> Tensor:
        left, right = x.chunk(2, 1)
        return torch.cat([self.left(left), self.right(right)], 1)


ONE_CHAIN: dict[str, Callable[[nn.Module], nn.Module]] = {"residual": Residual, "twice": Twice, "frozen": _frozen}
TWO_CHAINS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "product": torch.mul,
    "sigmoid gate": lambda a, b: a * torch.sigmoid(b),
    "sum": torch.add,
    "difference": torch.sub,
    "maximum": torch.maximum,
    "interleave": lambda a, b: torch.where(torch.arange(LENGTH) % 2 == 0, a, b),
}


def build_chain(chain: Chain, channels: int = CHANNELS) -> nn.Module:
    return nn.Sequential(*(build_piece(piece, channels) for piece in chain))


def build_piece(piece: Piece, channels: int) -> nn.Module:
    if isinstance(piece, str):
        return (STRAIGHT.get(piece) or RESTRICTING[piece])(channels)
    name, *chains = piece
    if name in ONE_CHAIN:
        return ONE_CHAIN[name](build_chain(chains[0], channels))
    inside = channels // 2 if name == "split" else channels
    left, right = (build_chain(chain, inside) for chain in chains)
    if name == "concatenate":
        return Concatenate(left, right, channels)
    if name == "split":
        return Split(left, right, torch.add)
    return Branches(left, right, TWO_CHAINS[name])


class RandomNetwork(nn.Module):
    """A chain between a linear entrance and a linear head, and perhaps a second head on the entrance."""

    def __init__(self, chain: Chain, second_head: bool):
        super().__init__()
        self.enter = nn.Conv1d(3, CHANNELS, 1)
        self.chain = build_chain(chain)
        self.head = nn.Linear(CHANNELS, 4)
        self.second = nn.Linear(CHANNELS, 2) if second_head else None

    def forward(self, x: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        x = self.enter(x)
        out = self.head(self.chain(x).mean(-1))
        return out if self.second is None else (out, self.second(F.relu(x).mean(-1)))
