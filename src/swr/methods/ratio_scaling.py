"""One scaling of a trained network when the data changes: of all parameters alike, or so that its function is kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from swr.algebra.plan import ScalePlan, analyze
from swr.checks import positive
from swr.errors import OptionError
from swr.methods.base import Batches, LossFunction, Method, learnable
from swr.methods.tools.tuning import along
from swr.rescaling import rescale


class NaiveScaling(Method):
    """Multiply all learnable parameters by one ratio, weights and biases alike.

        W_l <- c W_l,   b_l <- c b_l

    After the first layer biases are then too large for what they are added to, by c^(1-l), and the function changes.

    >>> method = NaiveScaling(model, ratio=0.5)
    >>> method.new_task()

    Args:
        ratio: c, above 0; with 1 nothing is done.
    """

    name = "naive-scaling"
    title = "naive scaling"
    only_at_new_task = True
    tuning = along("ratio", 0.1, 0.3, 0.5, 0.7, 0.9)
    owns = frozenset({"all weights at a new task"})
    symbols: ClassVar[Mapping[str, str]] = {"ratio": "c"}

    def __init__(self, model: nn.Module, example_inputs: Any = None, *, ratio: float, seed: int = 0) -> None:
        super().__init__(model, example_inputs, seed=seed)
        self.ratio = positive(ratio, "ratio c", infinite=False)
        self._parameters = learnable(model)

    @torch.no_grad()
    def new_task(self, batches: Batches | None = None, loss_fn: LossFunction | None = None) -> None:
        """θ <- c θ."""
        parameters: list[Tensor] = list(self._parameters.values())
        torch._foreach_mul_(parameters, self.ratio)


class ProportionalScaling(Method):
    """Multiply every weight by one ratio, and biases as Theorem 1 asks, so that f_θ' = C f_θ and no answer changes.

        W_l <- c W_l,   b_l <- c^l b_l        (on any graph: θ = P log c, see :func:`swr.rescale`)

    >>> method = ProportionalScaling(model, x, ratio=0.5)
    >>> method.new_task()

    Args:
        example_inputs: a batch of inputs, to trace the model with.
        ratio: c, above 0; with 1 nothing is done.
        plan: a ready plan instead of example inputs.
    """

    name = "proportional-scaling"
    title = "proportional scaling"
    only_at_new_task = True
    tuning = along("ratio", 0.1, 0.3, 0.5, 0.7, 0.9)
    owns = frozenset({"all weights at a new task"})
    symbols: ClassVar[Mapping[str, str]] = {"ratio": "c"}

    def __init__(
        self,
        model: nn.Module,
        example_inputs: Any = None,
        *,
        ratio: float,
        plan: ScalePlan | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(model, example_inputs, seed=seed)
        self.ratio = positive(ratio, "ratio c", infinite=False)
        if plan is None and example_inputs is None:
            raise OptionError("example inputs are needed to trace the model; pass a batch of inputs, or a plan of your own.")
        self.plan = analyze(model, example_inputs) if plan is None else plan

    def new_task(self, batches: Batches | None = None, loss_fn: LossFunction | None = None) -> None:
        """c for every weight, what follows from it for everything else."""
        rescale(self.model, self.plan, dict.fromkeys(self.plan.weights, self.ratio))
