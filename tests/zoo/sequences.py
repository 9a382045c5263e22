"""Sequence networks: attention in its many spellings, tied embeddings, recurrence."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .chains import RMSNorm
from .network import Network, normal, tokens
from .vision import Feedforward


class Encoder(nn.Module):
    def __init__(self, activation: str, norm_first: bool):
        super().__init__()
        self.embed = nn.Linear(6, 8)
        layer = nn.TransformerEncoderLayer(8, 2, 12, 0.1, activation, batch_first=True, norm_first=norm_first)
        norm = nn.LayerNorm(8) if norm_first else None
        self.encoder = nn.TransformerEncoder(layer, 2, norm=norm, enable_nested_tensor=False)
        self.head = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.encoder(self.embed(x)).mean(1))


def heads(x: Tensor, count: int) -> Tensor:
    return x.unflatten(-1, (count, -1)).transpose(1, 2)


class Attention(nn.Module):
    """softmax(Q Kᵀ / √d) V, spelled out, with an optional additive mask."""

    def __init__(self, width: int, count: int = 2):
        super().__init__()
        self.count = count
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
        self.value, self.out = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        query, key, value = (heads(layer(x), self.count) for layer in (self.query, self.key, self.value))
        scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
        if mask is not None:
            scores = scores + mask
        return self.out((torch.softmax(scores, -1) @ value).transpose(1, 2).flatten(2))


class HandWrittenEncoder(nn.Module):
    def __init__(self, activation: nn.Module):
        super().__init__()
        self.embed = nn.Linear(6, 8)
        self.norm1, self.attention = nn.LayerNorm(8), Attention(8)
        self.norm2, self.feedforward = nn.LayerNorm(8), Feedforward(8, 12, activation)
        self.norm, self.head = nn.LayerNorm(8), nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x)
        x = x + self.attention(self.norm1(x))
        x = x + self.feedforward(self.norm2(x))
        return self.head(self.norm(x[:, 0]))


class FusedCausalAttention(nn.Module):
    def __init__(self, width: int, count: int = 2):
        super().__init__()
        self.count = count
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        query, key, value = (heads(part, self.count) for part in self.qkv(x).chunk(3, -1))
        out = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.out(out.transpose(1, 2).flatten(2))


class GPTBlock(nn.Module):
    def __init__(self, width: int, attention: type[nn.Module]):
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(width), attention(width)
        self.norm2, self.feedforward = nn.LayerNorm(width), Feedforward(width, 2 * width, nn.GELU(approximate="tanh"))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x), mask)
        return x + self.feedforward(self.norm2(x))


class GPT(nn.Module):
    """Tied embedding and head, learned positions, and a mask of 0 and -inf for attentions that take one."""

    def __init__(self, attention: type[nn.Module], length: int = 6, width: int = 8):
        super().__init__()
        self.tok, self.pos = nn.Embedding(11, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(GPTBlock(width, attention) for _ in range(2))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 11, bias=False)
        self.head.weight = self.tok.weight
        self.register_buffer("mask", torch.full((length, length), -math.inf).triu(1))

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tok(ids) + self.pos(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x, self.mask[: ids.shape[1], : ids.shape[1]])
        return self.head(self.norm(x))


def rotate(x: Tensor) -> Tensor:
    """Rotary positions."""
    half = x.shape[-1] // 2
    frequency = torch.arange(half, dtype=x.dtype) / half
    angle = torch.arange(x.shape[-2], dtype=x.dtype)[:, None] / 100.0**frequency
    first, second = x[..., :half], x[..., half:]
    return torch.cat([first * angle.cos() - second * angle.sin(), second * angle.cos() + first * angle.sin()], -1)


class Llama(nn.Module):
    """RMSNorm, rotary positions, grouped queries, a SiLU gate, no biases."""

    def __init__(self, width: int = 8):
        super().__init__()
        self.embed = nn.Embedding(11, width)
        self.norm1, self.norm2, self.norm = nn.RMSNorm(width, 1e-5), RMSNorm(width), nn.RMSNorm(width, 1e-5)
        self.query, self.out = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.key, self.value = nn.Linear(width, width // 2, bias=False), nn.Linear(width, width // 2, bias=False)
        self.gate, self.up = nn.Linear(width, 12, bias=False), nn.Linear(width, 12, bias=False)
        self.down, self.head = nn.Linear(12, width, bias=False), nn.Linear(width, 11, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        h = self.norm1(x)
        query = rotate(heads(self.query(h), 2))
        key, value = rotate(heads(self.key(h), 1)), heads(self.value(h), 1)
        key, value = key.expand_as(query), value.repeat_interleave(2, 1)
        out = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(out.transpose(1, 2).flatten(2))
        h = self.norm2(x)
        x = x + self.down(F.silu(self.gate(h)) * self.up(h))
        return self.head(self.norm(x))


class ViT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 4, stride=4)
        self.class_token = nn.Parameter(torch.zeros(1, 1, 8))
        self.positions = nn.Parameter(torch.zeros(1, 5, 8))
        self.norm1, self.attention = nn.LayerNorm(8), nn.MultiheadAttention(8, 2, batch_first=True)
        self.norm2, self.feedforward = nn.LayerNorm(8), Feedforward(8, 16, nn.GELU())
        self.norm, self.head = nn.LayerNorm(8), nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).mT
        x = torch.cat([self.class_token.expand(len(x), -1, -1), x], 1) + self.positions
        h = self.norm1(x)
        x = x + self.attention(h, h, h, need_weights=False)[0]
        x = x + self.feedforward(self.norm2(x))
        return self.head(self.norm(x)[:, 0])


class AttentionWithWeights(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Linear(6, 8), nn.Linear(8, 5)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.embed(x)
        out, weights = self.attention(x, x, x)
        return self.head(out), weights


class RelativePositions(nn.Module):
    """A learned bias on the scores, as in Swin and T5."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.head = nn.Linear(6, 24), nn.Linear(8, 5)
        self.relative = nn.Parameter(torch.zeros(2, 7, 7))

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.qkv(x).unflatten(-1, (3, 2, 4)).permute(2, 0, 3, 1, 4)
        out = F.scaled_dot_product_attention(query, key, value, attn_mask=self.relative)
        return self.head(out.transpose(1, 2).flatten(2))


class MultiQuery(nn.Module):
    """Heads that share one key and one value; everything by einsum on bare parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.randn(3, 6, 4) / 2)
        self.key, self.value = nn.Parameter(torch.randn(6, 4) / 2), nn.Parameter(torch.randn(6, 4) / 2)
        self.out = nn.Parameter(torch.randn(3, 4, 5) / 2)

    def forward(self, x: Tensor) -> Tensor:
        query = torch.einsum("bnd,hdk->bhnk", x, self.query)
        key, value = torch.einsum("bmd,dk->bmk", x, self.key), torch.einsum("bmd,dv->bmv", x, self.value)
        scores = torch.einsum("bhnk,bmk->bhnm", query, key)
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        weights = scores.masked_fill(mask, -math.inf).softmax(-1)
        return torch.einsum("bhnm,bmv,hvo->bno", weights, value, self.out)


class AttentionPooling(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.score, self.head = nn.Linear(6, 8), nn.Linear(8, 1), nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.embed(x))
        return self.head((torch.softmax(self.score(x), 1) * x).sum(1))


class LSTMClassifier(nn.Module):
    def __init__(self, cell: type[nn.Module]):
        super().__init__()
        self.embed = nn.Embedding(11, 6)
        self.cell = cell(6, 8, num_layers=2, batch_first=True)
        self.head = nn.Linear(8, 5)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.cell(self.embed(ids))[0][:, -1])


class ReLURecurrence(nn.Module):
    """h ← relu(A x + B h), h = 0 at first, written as a loop."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.recur, self.head = nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        state = torch.zeros(len(x), 8, dtype=x.dtype)
        for step in x.unbind(1):
            state = F.relu(self.enter(step) + self.recur(state))
        return self.head(state)


SEQUENCES = normal((3, 7, 6))
IDS = tokens(11, (3, 6))

# Pre-norm: embedding, attention output and second feedforward layer write to the one stream; 2 norm1 + queries + keys = 0,
# and values and attention output share the stream's scale; in front of gelu norm2 + linear1 = 0. The last norm begins anew.
PRE_NORM = {"free": ("encoder.norm.weight", "head.weight"), "coupled": ("embed.weight", "encoder.layers.*weight")}
HAND_WRITTEN = {
    "free": ("norm.weight", "head.weight"),
    "coupled": ("embed.weight", "norm[12].weight", "attention*weight", "feed*weight"),
}

ATTENTION_AND_RECURRENCE = (
    Network("pre-norm encoder relu", lambda: Encoder("relu", True), SEQUENCES, **PRE_NORM, normalised=True),
    Network("pre-norm encoder gelu", lambda: Encoder("gelu", True), SEQUENCES, **PRE_NORM, normalised=True),
    # Post-norm: each norm begins a new stream. Of norm1 the feedforward asks linear1 + linear2 = 0, nothing of its gain.
    Network(
        "post-norm encoder relu",
        lambda: Encoder("relu", False),
        SEQUENCES,
        free=("*norm1.weight", "encoder.layers.1.norm2.weight", "head.weight"),
        coupled=("embed.weight", "*proj*weight", "*linear?.weight", "encoder.layers.0.norm2.weight"),
        normalised=True,
    ),
    # With gelu, norm1 + linear1 = 0 and linear2 = norm1.
    Network(
        "post-norm encoder gelu",
        lambda: Encoder("gelu", False),
        SEQUENCES,
        free=("encoder.layers.1.norm2.weight", "head.weight"),
        coupled=(
            "embed.weight",
            "*proj*weight",
            "*linear?.weight",
            "*norm1.weight",
            "encoder.layers.0.norm2.weight",
        ),
        normalised=True,
    ),
    Network("encoder by hand relu", lambda: HandWrittenEncoder(nn.ReLU()), SEQUENCES, **HAND_WRITTEN, normalised=True),
    Network("encoder by hand gelu", lambda: HandWrittenEncoder(nn.GELU()), SEQUENCES, **HAND_WRITTEN, normalised=True),
    # The table is part of the stream; only the last norm is not.
    Network(
        "gpt tied, causal sdpa",
        lambda: GPT(FusedCausalAttention),
        IDS,
        free=("norm.weight",),
        coupled=("tok.weight", "pos.weight", "blocks.*weight"),
        normalised=True,
    ),
    Network(
        "gpt tied, mask of -inf",
        lambda: GPT(Attention),
        IDS,
        free=("norm.weight",),
        coupled=("tok.weight", "pos.weight", "blocks.*weight"),
        normalised=True,
    ),
    Network(
        "llama",
        Llama,
        IDS,
        free=("norm.weight", "head.weight"),
        coupled=("embed.weight", "norm[12].weight", "[qkoguvd]*.weight"),
        normalised=True,
    ),
    Network(
        "vision transformer",
        ViT,
        normal((3, 3, 8, 8)),
        free=("norm.weight", "head.weight"),
        coupled=("patches.weight", "norm[12].weight", "attention*weight", "feedforward*weight"),
        followers=("*bias", "class_token", "positions"),
        normalised=True,
    ),
    # The attention weights are an output without scale, so C = 1: 2 embed + queries + keys = 0.
    Network(
        "attention that returns its weights",
        AttentionWithWeights,
        SEQUENCES,
        free=(),
        coupled=("*weight",),
        constant_is_one=True,
    ),
    Network(
        "relative positions",
        RelativePositions,
        SEQUENCES,
        free=("head.weight", "qkv.weight[16:24]"),
        coupled=("qkv.weight[0:8]", "qkv.weight[8:16]"),
        followers=("*bias", "relative"),
    ),
    Network(
        "multi-query attention by einsum",
        MultiQuery,
        SEQUENCES,
        free=("value", "out"),
        coupled=("query", "key"),
        followers=(),
    ),
    Network(
        "attention pooling",
        AttentionPooling,
        SEQUENCES,
        free=("head.weight",),
        coupled=("embed.weight", "score.weight"),
    ),
    Network(
        "lstm",
        lambda: LSTMClassifier(nn.LSTM),
        IDS,
        free=("head.weight",),
        held=("embed.weight", "cell.weight*", "cell.bias*"),
        followers=("head.bias",),
        complete=False,  # embedding and first input weight could trade scale, but the cell is opaque
    ),
    Network(
        "gru",
        lambda: LSTMClassifier(nn.GRU),
        IDS,
        free=("head.weight",),
        held=("embed.weight", "cell.weight*", "cell.bias*"),
        followers=("head.bias",),
        complete=False,  # embedding and first input weight could trade scale, but the cell is opaque
    ),
    # enter = recur + enter from the second step on.
    Network(
        "relu recurrence by hand",
        ReLURecurrence,
        SEQUENCES,
        free=("enter.weight", "head.weight"),
        held=("recur.weight",),
    ),
)
