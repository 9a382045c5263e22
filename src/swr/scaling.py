"""One rescale: the norms of the weights, their scalers, and a factor for every tensor that is scaled.

    log c_l = log((λ n_l^init + (1 − λ) ‖W_l‖) / ‖W_l‖)        θ = P log c + what earlier rescales could not apply

The arithmetic between the norms and the factors is a few numbers. :class:`OnDevice` does it in tensors, without ever
waiting for the device. :class:`OnHost` does the same in Python floats, for small networks on the CPU, where calling torch
would cost more than the work itself. They agree to rounding.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from math import copysign, exp, inf, log

import torch
from torch import Tensor

from swr.algebra.apply import Scaled
from swr.norms import Norms, norms_of

_LARGEST = 60.0  # of |log factor| in one rescale, so that no float32 factor overflows; the rest is carried
_HOST_TERMS = 4096  # terms of P up to which Python floats are faster than tensors


def log_scalers(norms: Tensor, pull: Tensor, keep: Tensor) -> Tensor:
    """log c_l = log((λ n_l^init + (1 − λ) ‖W_l‖) / ‖W_l‖); 0 where a norm is zero or not finite.

    norms: ‖W_l‖, float64.
    pull: λ n_l^init.
    keep: 1 − λ.
    """
    return torch.addcmul(pull, keep, norms).div_(norms).log_().nan_to_num_(nan=0.0, posinf=0.0, neginf=0.0)


class OnDevice:
    """A rescale in tensors, on the device of the first weight.

    weights: the tensors whose norms are pulled.
    scaled: the tensors that are multiplied.
    matrix: P, one row per scaled tensor, one column per weight.
    """

    def __init__(self, weights: Sequence[Tensor], scaled: Scaled, matrix: Tensor) -> None:
        self.device = weights[0].device if weights else torch.device("cpu")
        self._norms, self._scaled, self._matrix = Norms(weights), scaled, matrix.to(self.device)
        self.set_pending([0.0] * len(matrix))

    def set_pull(self, anchors: Tensor, strength: Tensor) -> None:
        """n^init and λ of every weight."""
        self._anchors, self._keep = anchors.to(self.device), (1 - strength).to(self.device)
        self._pull = (strength * anchors).to(self.device)

    def set_pending(self, pending: Sequence[float]) -> None:
        """The logarithms that are still to be applied."""
        self._pending = torch.tensor(list(pending), dtype=torch.float64, device=self.device)

    def pending(self) -> list[float]:
        """The logarithms that are still to be applied."""
        return self._pending.tolist()

    def rescale(self, share: Tensor | None = None) -> None:
        """Pull once; with (1 − λ)^share if the optimizer skipped some of its steps, so that 0 leaves everything alone."""
        pull, keep = self._pull, self._keep
        if share is not None:
            keep = keep ** share.to(self.device)
            pull = (1 - keep) * self._anchors
        logs = torch.addmv(self._pending, self._matrix, log_scalers(self._norms(), pull, keep))
        now = logs.clamp(-_LARGEST, _LARGEST)
        self._pending = logs - now + self._scaled.multiply(now)


class OnHost:
    """The same rescale in Python floats; see :class:`OnDevice` for the arguments."""

    def __init__(self, weights: Sequence[Tensor], scaled: Scaled, matrix: Tensor) -> None:
        self.device = torch.device("cpu")
        self._norms_of, self._scaled = norms_of(weights), scaled
        self._rows = [[(j, k) for j, k in enumerate(row) if k] for row in matrix.tolist()]
        self._factors = array("f" if scaled.dtype is torch.float32 else "d", [1.0] * len(matrix))
        self._views = torch.frombuffer(self._factors, dtype=scaled.dtype or torch.float64).unbind()
        self.set_pending([0.0] * len(matrix))

    @staticmethod
    def suits(weights: Sequence[Tensor], scaled: Scaled, matrix: Tensor) -> bool:
        """Whether Python is fast enough: float32 or float64 on the CPU, few terms."""
        return (
            bool(weights)
            and all(type(w) in (Tensor, torch.nn.Parameter) and w.device.type == "cpu" for w in weights)
            and scaled.dtype in (torch.float32, torch.float64)
            and int(matrix.count_nonzero()) <= _HOST_TERMS
        )

    def set_pull(self, anchors: Tensor, strength: Tensor) -> None:
        """n^init and λ of every weight."""
        self._anchors = anchors.tolist()
        self._pulls = list(zip((strength * anchors).tolist(), (1 - strength).tolist(), strict=True))

    def set_pending(self, pending: Sequence[float]) -> None:
        """The logarithms that are still to be applied."""
        self._pending = list(pending)

    def pending(self) -> list[float]:
        """The logarithms that are still to be applied."""
        return list(self._pending)

    def rescale(self, share: Tensor | None = None) -> None:
        """Pull once, with the share of the steps that the optimizer did not skip."""
        pulls = self._pulls
        if share is not None:
            kept = [keep ** float(share) for _, keep in pulls]
            pulls = [((1 - keep) * anchor, keep) for anchor, keep in zip(self._anchors, kept, strict=True)]
        targets = [
            log((pull + keep * n) / n) if 0.0 < n < inf else 0.0
            for n, (pull, keep) in zip(self._norms_of(), pulls, strict=True)
        ]
        pending, factors = self._pending, self._factors
        for i, row in enumerate(self._rows):
            theta = pending[i]
            for j, k in row:
                theta += k * targets[j]
            factors[i] = exp(theta if -_LARGEST < theta < _LARGEST else copysign(_LARGEST, theta))  # rounds
            pending[i] = theta - log(factors[i])
        torch._foreach_mul_(self._scaled.tensors(), self._views)
