"""What the layers of a column's network are called: "conv 1", "fc 2", beside the names of their parameters."""

from functools import cache

import torch
from torch import nn

from swr.bench.experiments import find_column
from swr.bench.experiments.models import build
from swr.errors import SWRError

KINDS: tuple[tuple[str, tuple[type[nn.Module], ...]], ...] = (
    ("conv", (nn.Conv1d, nn.Conv2d, nn.Conv3d)),
    ("fc", (nn.Linear,)),
    ("norm", (nn.modules.batchnorm._BatchNorm, nn.LayerNorm, nn.GroupNorm)),
)
"""a word for each kind of layer; their numbers start at 1"""


def layer_name(column: str, parameter: str) -> str:
    """A weight with the name of its layer; alone if this version does not know the network, or the network no such weight.

    >>> layer_name("cifar10-cnn", "9.weight"), layer_name("somewhere", "9.weight")
    ('fc 2 · 9.weight', '9.weight')
    """
    known = _names(column).get(parameter)
    return f"{known} · {parameter}" if known else parameter


@cache
def _names(column: str) -> dict[str, str]:
    try:
        with torch.device("meta"):  # kinds of layers do not depend on the images
            model = build(find_column(column).model, (3, 64, 64), 10)
    except SWRError:
        return {}
    counts = dict.fromkeys((word for word, _ in KINDS), 0)
    found = {}
    for name, module in model.named_modules():
        for word, kinds in KINDS:
            if isinstance(module, kinds):
                counts[word] += 1
                found[f"{name}.weight"] = f"{word} {counts[word]}"
    return found
