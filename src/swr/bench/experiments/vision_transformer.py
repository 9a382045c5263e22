"""A small vision transformer, which is not the paper's: FIRE's tiny one with fewer tokens, a smaller width and fewer blocks.

    tokens    patches of 8x8 pixels, one linear map, a class token before them, learned positions
    block     x + attention(norm x), then x + MLP(norm x): 3 heads, separate q, k, v without bias; GELU, 4 times as wide
    output    the norm of the class token, one linear map

FIRE's has patches of 4x4, width 192, 12 blocks and a LayerNorm before and after the map of the patches. Linear maps have
PyTorch's default initialisation; class token and positions are normal with standard deviation 0.02.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from swr.errors import OptionError


class Block(nn.Module):
    """Attention, then an MLP, each added to its input.

    Args:
        width: Of a token.
        heads: Among which it is divided.
        ratio: How many times as wide the MLP is.
    """

    def __init__(self, width: int, heads: int, ratio: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.LayerNorm(width)
        self.q = nn.Linear(width, width, bias=False)
        self.k = nn.Linear(width, width, bias=False)
        self.v = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, width)
        self.mlp_norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, ratio * width)
        self.down = nn.Linear(ratio * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """[images, tokens, width], the same shape out."""
        y = self.attention_norm(x)
        q, k, v = (layer(y).unflatten(-1, (self.heads, -1)).transpose(1, 2) for layer in (self.q, self.k, self.v))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        mlp: Tensor = self.down(F.gelu(self.up(self.mlp_norm(x))))
        return x + mlp


class VisionTransformer(nn.Module):
    """Images to classes.

    >>> sum(p.numel() for p in VisionTransformer((3, 32, 32), 10).parameters())
    467626

    Args:
        shape: Channels, height and width of the images.
        classes: How many outputs.
        patch: Height and width of a patch; both sides of an image must be multiples of it.
        width: Of a token.
        depth: Blocks.
        heads: Of each attention.
        ratio: Width of each MLP, in widths of a token.
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        classes: int,
        *,
        patch: int = 8,
        width: int = 96,
        depth: int = 4,
        heads: int = 3,
        ratio: int = 4,
    ) -> None:
        super().__init__()
        channels, height, breadth = shape
        if height % patch or breadth % patch:
            raise OptionError(f"vit needs images whose sides are multiples of {patch}, found {height}x{breadth}: use mlp.")
        self.patch = patch
        self.embedding = nn.Linear(channels * patch**2, width)
        self.class_token = nn.Parameter(0.02 * torch.randn(1, 1, width))
        self.positions = nn.Parameter(0.02 * torch.randn(1, 1 + height * breadth // patch**2, width))
        self.blocks = nn.Sequential(*(Block(width, heads, ratio) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, images: Tensor) -> Tensor:
        """[images, channels, height, breadth] -> [images, classes]."""
        grid = images.unflatten(3, (-1, self.patch)).unflatten(2, (-1, self.patch))  # images, channels, rows, y, columns, x
        tokens = self.embedding(grid.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2))
        tokens = torch.cat([self.class_token.expand(len(images), -1, -1), tokens], dim=1) + self.positions
        scores: Tensor = self.head(self.norm(self.blocks(tokens)[:, 0]))
        return scores
