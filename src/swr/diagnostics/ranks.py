"""Ranks of a network's features: effective rank, srank and stable rank. The features are not centred.

References:
    O. Roy, M. Vetterli: The Effective Rank, EUSIPCO 2007.
    A. Kumar, R. Agarwal, D. Ghosh, S. Levine: Implicit Under-Parameterization Inhibits Data-Efficient Deep Reinforcement
    Learning, ICLR 2021 (srank).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from swr.diagnostics.activations import Watched
from swr.errors import ModelError, OptionError
from swr.probe import as_args, undisturbed


@dataclass(frozen=True)
class Ranks:
    """The three ranks of one matrix of features.

    Attributes:
        effective: the effective rank of Roy and Vetterli.
        srank: the effective rank of Kumar et al.
        stable: the stable rank.
    """

    effective: float
    srank: int
    stable: float


def effective_rank(matrix: Tensor) -> float:
    """The effective rank of Roy and Vetterli; 0 for a zero matrix.

        exp(−Σ p_i log p_i),   p_i = σ_i / Σ_k σ_k

    >>> round(effective_rank(torch.eye(3)), 6)
    3.0

    Args:
        matrix: one row per example, one column per feature.
    """
    sigma = _singular_values(matrix)
    if not sigma.any():
        return 0.0
    p = sigma / sigma.sum()
    return float(torch.special.entr(p).sum().exp())


def srank(matrix: Tensor, delta: float = 0.01) -> int:
    """The effective rank of Kumar et al.; 0 for a zero matrix.

        srank_δ = min { k : Σ_{i ≤ k} σ_i ≥ (1 − δ) Σ_i σ_i }

    >>> srank(torch.diag(torch.tensor([90.0, 9.5, 0.5])))
    2

    Args:
        matrix: one row per example, one column per feature.
        delta: δ, the share of the singular values that may be left out; at least 0 and below 1.
    """
    if not 0 <= delta < 1:
        raise OptionError(f"δ must be at least 0 and below 1, found {delta!r}.")
    sigma = _singular_values(matrix)
    if not sigma.any():
        return 0
    sums = sigma.cumsum(0)
    return int((sums < (1 - delta) * sums[-1]).sum()) + 1


def stable_rank(matrix: Tensor) -> float:
    """‖Φ‖² / ‖Φ‖_σ²: the squared Frobenius norm over the squared spectral norm; 0 for a zero matrix.

    >>> stable_rank(torch.diag(torch.tensor([2.0, 1.0, 1.0])))
    1.5

    Args:
        matrix: one row per example, one column per feature.
    """
    sigma = _singular_values(matrix)
    return float(sigma.square().sum() / sigma[0].square()) if sigma.any() else 0.0


def features(model: nn.Module, inputs: Any, layer: str | None = None) -> Tensor:
    """The features of a network as a matrix, one row per example.

    >>> features(model, x).shape
    torch.Size([2, 144])

    Args:
        model: any module; it is left as it was.
        inputs: a tensor or a tuple of positional inputs.
        layer: the path of the module whose output is taken. By default, the input of the last linear layer or convolution is
            taken (the penultimate features); each position of a sequence is then a row of its own.

    Raises:
        ModelError: no such features were computed.
        OptionError: the model has no module of this path.
    """
    if layer is None:
        found = Watched(model, inputs).features
        if found is None:
            raise ModelError(
                f"{type(model).__name__} ran without a linear layer or convolution; name the layer whose output to use."
            )
        return found.flatten(0, -2) if found.ndim == 3 else found.flatten(1)
    kept: list[Any] = []
    hook = _module(model, layer).register_forward_hook(lambda module, args, output: kept.append(output))
    try:
        with undisturbed(model), torch.no_grad():
            model(*as_args(inputs))
    finally:
        hook.remove()
    if not kept or not isinstance(kept[-1], Tensor):
        what = f"returned {type(kept[-1]).__name__}" if kept else "did not run"
        raise ModelError(f"the module {layer!r} {what}; name one whose output is a tensor.")
    return kept[-1].flatten(1)


def feature_ranks(model: nn.Module, inputs: Any, layer: str | None = None, delta: float = 0.01) -> Ranks:
    """All three ranks of a network's features; none is above the number of examples.

    >>> ranks = feature_ranks(model, x)
    >>> 1 <= ranks.stable <= ranks.effective <= ranks.srank <= 2
    True

    Args:
        model: any module; it is left as it was.
        inputs: as in :func:`features`.
        layer: as in :func:`features`.
        delta: δ of :func:`srank`.
    """
    matrix = features(model, inputs, layer)
    return Ranks(effective_rank(matrix), srank(matrix, delta), stable_rank(matrix))


def _singular_values(matrix: Tensor) -> Tensor:
    if matrix.ndim != 2:
        raise OptionError(f"a rank needs a matrix, found a tensor of {matrix.ndim} axes; flatten it to (examples, features).")
    found: Tensor = torch.linalg.svdvals(matrix.detach().double())
    return found


def _module(model: nn.Module, path: str) -> nn.Module:
    modules: dict[str, nn.Module] = dict(model.named_modules())
    if path not in modules:
        raise OptionError(f"the model has no module {path!r}; it has {', '.join(filter(None, modules))}.")
    return modules[path]
