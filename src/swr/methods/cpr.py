"""CPR, constrained parameter regularisation: decay a weight only as far as its norm exceeds a bound (Franke et al., 2024)."""

from __future__ import annotations

from math import inf
from typing import Any

import torch
from torch import Tensor, nn

from swr.checks import fraction, interval, positive
from swr.errors import OptionError
from swr.methods.base import Method, restore
from swr.methods.tools.layers import affine_layers
from swr.methods.tools.tuning import along
from swr.norms import frobenius_norms


class CPR(Method):
    """Hold the squared norm of every weight tensor below a bound κ by a decay that is as strong as it has to be.

        μ <- max(0, μ + (‖W‖² - κ) / d),   W <- (1 - 2 μ) W      after every step; d = entries of W, μ_0 = 0

    μ is the multiplier of the constraint ‖W‖² <= κ: it grows while W is too long and falls back to 0 when it is not. For
    W = (3, 4) and κ = 24.9: μ = 0.1 / 2 = 0.05, W <- 0.9 W = (2.7, 3.6).

    κ is found for each tensor. By default it is the squared norm at its inflection point: when ‖W‖², averaged over samples,
    grows less between two samples than between the two before, growth is over. Or give ``warm_start``, or ``factor``.

    >>> method = CPR(model, factor=2.0)
    >>> handle = method.attach(optimizer)

    When:
        After every step, as soon as κ is known: with the inflection point after two samples at the earliest, 2 S steps.

    Touches:
        Weights of convolutions and fully connected layers; nothing else. With ``factor`` a weight that begins at zero has no
        bound and is left alone.

    Keeps:
        μ and κ of every weight; the average squared norm and its last increase; the number of steps.

    Differences:
        The authors' code computes the average of the inflection point and never stores it, so that what it compares is a
        tenth of a single sample. Here it is stored and begins with the initial norm. From zero it would bend at once.

    Args:
        factor: κ = factor x ‖W_0‖² from the first step on ("dependent" in the authors' code).
        warm_start: κ is ‖W‖² after this many steps, and nothing is done before.
        every: steps between two samples of the inflection point.
        smoothing: of the average of the samples, in [0, 1].

    References:
        J. Franke, M. Hefenbrock, G. Koehler, F. Hutter, 2024, "Improving Deep Learning Optimization through Constrained
        Parameter Regularization", NeurIPS, arXiv 2311.09058; the authors' code, adam_cpr.py: μ is theirs for R(W) = ‖W‖² and
        an update rate of 1 / d.
    """

    name = "cpr"
    title = "CPR"
    tuning = along("factor", 0.5, 1.0, 2.0, 4.0, 8.0)
    symbols = {"factor": "κ/n²", "warm_start": "T", "every": "S", "smoothing": "β"}  # noqa: RUF012
    owns = frozenset({"how weights decay apart from the gradient"})

    def __init__(
        self,
        model: nn.Module,
        example_inputs: Any = None,
        *,
        factor: float | None = None,
        warm_start: float | None = None,
        every: float = 200,
        smoothing: float = 0.9,
        seed: int = 0,
    ) -> None:
        super().__init__(model, example_inputs, seed=seed)
        if factor is not None and warm_start is not None:
            raise OptionError("the bound κ comes from factor or from warm_start: give one of them, or neither.")
        self.every = interval(every, "every S")
        self.smoothing = fraction(smoothing, "smoothing β")
        self.warm_start = None if warm_start is None else interval(warm_start, "warm_start T")
        self._finds_inflection = factor is None and warm_start is None
        layers = affine_layers(model)
        self._names = [layer.name for layer in layers]
        self._weights: list[Tensor] = [layer.weight for layer in layers]
        squares = self._squares()
        self._sizes = torch.tensor([weight.numel() for weight in self._weights], dtype=squares.dtype, device=squares.device)
        bound = torch.full_like(squares, inf)
        if factor is not None:  # a weight that begins at zero has no bound
            bound = torch.where(squares > 0, positive(factor, "factor", infinite=False) * squares, bound)
        self._found = {
            "multiplier": torch.zeros_like(squares),
            "bound": bound,
            "average": squares.clone(),
            "increase": torch.full_like(squares, -inf),
        }
        """μ, κ, and of the samples their average and its last increase; one entry for each weight"""
        self._steps = 0

    @torch.no_grad()
    def step(self) -> None:
        """Update μ, decay, and look for κ."""
        if not self._weights:
            return
        self._steps += 1
        squares = self._squares()
        multiplier, bound = self._found["multiplier"], self._found["bound"]
        multiplier.add_((squares - bound) / self._sizes).clamp_(min=0)  # an unknown bound is infinite, and gives 0
        factors = (1 - 2 * multiplier).unbind()
        torch._foreach_mul_(self._weights, [f.to(w) for f, w in zip(factors, self._weights, strict=True)])
        if self._steps == self.warm_start:
            bound.copy_(squares)
        elif self._finds_inflection and self._steps % self.every == 0:
            self._sample(squares)

    def _sample(self, squares: Tensor) -> None:
        """κ <- ‖W‖² where the average now grows less than before."""
        average, increase, bound = self._found["average"], self._found["increase"], self._found["bound"]
        grown = (1 - self.smoothing) * (squares - average)
        bound.copy_(torch.where(torch.isinf(bound) & (grown < increase), squares, bound))
        average.add_(grown)
        increase.copy_(grown)

    def _squares(self) -> Tensor:
        return frobenius_norms([w.detach() for w in self._weights]).square() if self._weights else torch.zeros(0)

    def state(self) -> dict[str, Any]:
        """What has to be saved."""
        rows = {key: dict(zip(self._names, values.unbind(), strict=True)) for key, values in self._found.items()}
        return {"steps": self._steps, **rows}

    def load_state(self, state: dict[str, Any]) -> None:
        """The reverse of :meth:`state`."""
        for key, values in self._found.items():
            restore(dict(zip(self._names, values.unbind(), strict=True)), state[key])
        self._steps = int(state["steps"])
