"""Norms of a network's layers, their ratio to the anchors, and the balance between layers (Theorem 3)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import combinations

import torch
from torch import Tensor, nn

from swr.algebra.blocks import parameter_of
from swr.norms import frobenius_norms
from swr.rescaling import SoftWeightRescaling

Norms = dict[str, float]
"""‖W_l‖ by the name of the weight"""


def layer_weights(model: nn.Module) -> dict[str, nn.Parameter]:
    """The weight of every layer by name, each once: parameters called ``weight`` or with two or more axes.

    >>> list(layer_weights(nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))))
    ['0.weight', '1.weight']
    """
    named = {id(module.weight) for module in model.modules() if isinstance(getattr(module, "weight", None), nn.Parameter)}
    return {name: p for name, p in model.named_parameters() if id(p) in named or p.ndim >= 2}


def layer_norms(model: nn.Module) -> Norms:
    """‖W_l‖ (Frobenius) of every layer's weight.

    >>> net = nn.Linear(2, 1)
    >>> net.weight.data = torch.tensor([[3.0, 4.0]])
    >>> layer_norms(net)
    {'weight': 5.0}
    """
    return norms_by_name(layer_weights(model))


def anchors_of(rescaler: SoftWeightRescaling) -> Norms:
    """n_l^init of every weight that the rescaler acts on; weights whose anchor is zero or not finite are left out.

    A parameter that is used in blocks, such as a fused matrix of queries, keys and values, has the anchor of all its blocks
    together, √Σ n_b², to compare with its norm.

    >>> rescaler = SoftWeightRescaling(model, x, coefficient=1e-3)
    >>> anchors_of(rescaler) == layer_norms(model)
    True
    """
    found: Norms = {}
    for name, n in rescaler.anchors().items():
        if _usable(n):
            found[parameter_of(name)] = math.hypot(found.get(parameter_of(name), 0.0), n)
    return found


def norm_ratios(norms: Mapping[str, float], anchors: Mapping[str, float]) -> dict[str, float]:
    """‖W_l‖ / n_l^init for every weight that has an anchor.

    >>> norm_ratios({"a": 3.0, "b": 1.0}, {"a": 2.0, "b": 0.0})
    {'a': 1.5}

    Args:
        norms: the current :func:`layer_norms`.
        anchors: the result of :func:`anchors_of`, or of :func:`layer_norms` at an earlier time.
    """
    return {name: norms[name] / anchors[name] for name in norms if _usable(anchors.get(name, 0.0))}


def balance(norms: Mapping[str, float], anchors: Mapping[str, float]) -> dict[tuple[str, str], float]:
    """The imbalance b_t of every pair of layers; 0 means as balanced as at the start.

        b_t = |r_t − r_0|,   r_t = ‖W'_t‖ / ‖W_t‖   where ‖W_0‖ ≤ ‖W'_0‖

    A rescale of SWR never increases it (Theorem 3). Layers whose norm or anchor is zero or not finite are left out.

    >>> balance({"a": 2.0, "b": 3.0}, {"a": 1.0, "b": 2.0})
    {('a', 'b'): 0.5}

    Args:
        norms: as in :func:`norm_ratios`.
        anchors: as in :func:`norm_ratios`.
    """
    names = [name for name in norms if _usable(norms[name]) and _usable(anchors.get(name, 0.0))]
    found = {}
    for pair in combinations(names, 2):
        w, v = sorted(pair, key=anchors.__getitem__)
        found[w, v] = abs(norms[v] / norms[w] - anchors[v] / anchors[w])
    return found


@torch.no_grad()
def norms_by_name(tensors: Mapping[str, Tensor]) -> Norms:
    """The Frobenius norms of named tensors, with one transfer from the device."""
    return dict(zip(tensors, frobenius_norms(list(tensors.values())).tolist(), strict=True)) if tensors else {}


def _usable(norm: float) -> bool:
    return norm > 0 and math.isfinite(norm)
