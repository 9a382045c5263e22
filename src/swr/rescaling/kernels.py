"""The arithmetic of one rescale: from the norms of the weights to a factor for every tensor that is scaled.

    log c_l = log((λ n_l + (1 − λ) ‖W_l‖) / ‖W_l‖)        θ = P log c + what earlier rescales could not apply

Under a budget λ is 1, n_l the largest norm that is allowed, and log c_l at most 0: norms below it are left alone.

Between the norms and the factors there are only a few numbers. :class:`DeviceKernel` computes with tensors and never waits
for the device. :class:`HostKernel` computes the same with Python floats, for small networks on the CPU, where calling torch
would cost more than the work itself. They agree to rounding. Neither keeps anchors, strengths or pending logarithms:
these belong to the weight group and are passed in.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import copysign, exp, inf, log

import torch
from torch import Tensor

from swr.norms import Norms, norms_of
from swr.rescaling.tensors import ScaledTensors

_LARGEST = 60.0  # of |log factor| in one rescale, so that no float32 factor overflows; the rest is carried
_HOST_TERMS = 4096  # terms of P up to which Python floats are faster than tensors


@dataclass(frozen=True, eq=False)
class Pull:
    """Where every weight is pulled, and how strongly; immutable, so that what is derived from it is computed once.

    Attributes:
        anchors: n_l, float64; 0 for a weight that is not pulled.
        strength: λ of one rescale, float64; 0 for a weight that is not pulled.
        down_only: whether a weight whose norm is below its anchor is left alone, c_l = min(1, …).
    """

    anchors: Tensor
    strength: Tensor
    down_only: bool = False

    @classmethod
    def usable(cls, anchors: Tensor, strength: Tensor, *, down_only: bool = False) -> Pull:
        """The same without the weights whose anchor is zero or not finite: these are left alone."""
        usable = torch.isfinite(anchors) & (anchors > 0)
        return cls(torch.where(usable, anchors, 0.0), torch.where(usable, strength.to(anchors.device), 0.0), down_only)

    @cached_property
    def terms(self) -> tuple[Tensor, Tensor]:
        """λ n_l and 1 − λ."""
        return self.strength * self.anchors, 1 - self.strength

    @cached_property
    def pairs(self) -> list[tuple[float, float]]:
        """λ n_l and 1 − λ of every weight, as Python floats."""
        pull, keep = self.terms
        return list(zip(pull.tolist(), keep.tolist(), strict=True))

    def log_scalers(self, norms: Tensor, share: Tensor | None = None) -> Tensor:
        """log c_l of weights with these norms, float64.

        Args:
            norms: ‖W_l‖, float64, on the device of the anchors.
            share: of the steps since the last rescale that the optimizer did not skip.
        """
        logs = log_scalers(norms, *(self.terms if share is None else self.weakened(share)))
        return logs.clamp_(max=0.0) if self.down_only else logs

    def weakened(self, share: Tensor) -> tuple[Tensor, Tensor]:
        """The terms of 1 − (1 − λ)^share: some of the steps since the last rescale were skipped."""
        keep = self.terms[1] ** share.to(self.anchors.device)
        return (1 - keep) * self.anchors, keep

    def weakened_pairs(self, share: float) -> list[tuple[float, float]]:
        """The same as Python floats."""
        kept = [keep**share for _, keep in self.pairs]
        return [((1 - keep) * anchor, keep) for anchor, keep in zip(self.anchors.tolist(), kept, strict=True)]


def log_scalers(norms: Tensor, pull: Tensor, keep: Tensor) -> Tensor:
    """log c_l = log((λ n_l + (1 − λ) ‖W_l‖) / ‖W_l‖); 0 where a norm is zero or not finite.

    Args:
        norms: ‖W_l‖, float64.
        pull: λ n_l.
        keep: 1 − λ.
    """
    return torch.addcmul(pull, keep, norms).div_(norms).log_().nan_to_num_(nan=0.0, posinf=0.0, neginf=0.0)


class DeviceKernel:
    """A rescale in tensors, on the device of the first weight.

    Args:
        weights: the tensors whose norms are pulled.
        scaled: the tensors that are multiplied.
        matrix: P, one row per scaled tensor, one column per weight.
    """

    def __init__(self, weights: Sequence[Tensor], scaled: ScaledTensors, matrix: Tensor) -> None:
        self.device = weights[0].device if weights else torch.device("cpu")
        self._norms, self._scaled, self._matrix = Norms(weights), scaled, matrix.to(self.device)

    def pending(self, logs: Sequence[float]) -> Tensor:
        """Logarithms that are still to be applied, as :meth:`rescale` takes them."""
        return torch.tensor(list(logs), dtype=torch.float64, device=self.device)

    def rescale(self, pull: Pull, pending: Tensor, share: Tensor | None = None) -> Tensor:
        """Pull once; returns what could not be applied yet.

        Args:
            pull: the anchors and strengths.
            pending: what earlier rescales could not apply.
            share: of the steps since the last rescale that the optimizer did not skip; 0 leaves everything alone.
        """
        logs = torch.addmv(pending, self._matrix, pull.log_scalers(self._norms(), share))
        now = logs.clamp(-_LARGEST, _LARGEST)
        if share is not None:
            now = torch.where(share.to(now.device) > 0, now, 0.0)
        return logs - now + self._scaled.multiply(now)


class HostKernel:
    """The same rescale in Python floats; see :class:`DeviceKernel` for the arguments."""

    def __init__(self, weights: Sequence[Tensor], scaled: ScaledTensors, matrix: Tensor) -> None:
        self.device = torch.device("cpu")
        self._norms_of, self._scaled = norms_of(weights), scaled
        self._rows = [[(j, k) for j, k in enumerate(row) if k] for row in matrix.tolist()]
        self._factors = array("f" if scaled.dtype is torch.float32 else "d", [1.0] * len(matrix))
        self._views = torch.frombuffer(self._factors, dtype=scaled.dtype or torch.float64).unbind()

    @staticmethod
    def suits(weights: Sequence[Tensor], scaled: ScaledTensors, matrix: Tensor) -> bool:
        """Whether Python is fast enough: float32 or float64 on the CPU, few terms."""
        return (
            bool(weights)
            and all(type(w) in (Tensor, torch.nn.Parameter) and w.device.type == "cpu" for w in weights)
            and scaled.dtype in (torch.float32, torch.float64)
            and int(matrix.count_nonzero()) <= _HOST_TERMS
        )

    def pending(self, logs: Sequence[float]) -> list[float]:
        """Logarithms that are still to be applied, as :meth:`rescale` takes them."""
        return list(logs)

    def rescale(self, pull: Pull, pending: list[float], share: Tensor | None = None) -> list[float]:
        """Pull once; see :meth:`DeviceKernel.rescale`."""
        if share is not None and not share:
            return pending
        pairs = pull.pairs if share is None else pull.weakened_pairs(float(share))
        targets = [
            log((towards + keep * n) / n) if 0.0 < n < inf else 0.0
            for n, (towards, keep) in zip(self._norms_of(), pairs, strict=True)
        ]
        if pull.down_only:
            targets = [min(0.0, target) for target in targets]
        factors, left = self._factors, []
        for i, row in enumerate(self._rows):
            theta = pending[i]
            for j, k in row:
                theta += k * targets[j]
            factors[i] = exp(theta if -_LARGEST < theta < _LARGEST else copysign(_LARGEST, theta))  # rounds
            left.append(theta - log(factors[i]))
        if any(factor != 1.0 for factor in factors):
            torch._foreach_mul_(self._scaled.tensors(), self._views)
        return left


Kernel = HostKernel | DeviceKernel


def kernel_for(weights: Sequence[Tensor], scaled: ScaledTensors, matrix: Tensor) -> Kernel:
    """The faster of the two for these tensors."""
    return (HostKernel if HostKernel.suits(weights, scaled, matrix) else DeviceKernel)(weights, scaled, matrix)
