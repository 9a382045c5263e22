"""Soft Weight Rescaling with a growth budget in place of the paper's coefficient."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import nn

from swr.algebra.plan import ScalePlan
from swr.checks import whole
from swr.methods.bases.rescaling import Rescaling, refuse_unknown
from swr.methods.tools.tuning import along
from swr.rescaling import SoftWeightRescaling
from swr.rescaling.aim import DEFAULT_GROWTH


class SWRBudget(Rescaling):
    """After every step, scale the layers that have grown past ρ times their balanced initial norm back to it.

        c_l = min(1, ρ n_l / ‖W_l‖),   n_l = the initial norms of the layers, balanced: equal in a chain

    Biases and running statistics follow, so that the function is only multiplied by one constant. Nothing is to be tuned to the
    network or the learning rate.

    >>> method = SWRBudget(model, x)
    >>> handle = method.attach(optimizer)

    When:
        After every step of the optimizer.

    Touches:
        Every parameter that the scale plan moves: weights, and what follows them.

    Keeps:
        One norm a weight.

    Args:
        example_inputs: a batch of inputs, to trace the model with.
        growth: ρ, how far a norm may grow in units of its anchor.
        every: rescale only each n-th step.
        plan: a plan of this model, in place of tracing it.
        options: the other options of :class:`swr.SoftWeightRescaling`; ``anchors="initial"`` for the unbalanced norms.
    """

    name = "swr-budget"
    title = "SWR, budget"
    tuning = along("growth", 1.0, 1.2, 1.5, 2.0, 3.0)
    symbols: ClassVar[Mapping[str, str]] = {"growth": "ρ"}

    def __init__(
        self,
        model: nn.Module,
        example_inputs: Any = None,
        *,
        growth: float = DEFAULT_GROWTH,
        every: int = 1,
        plan: ScalePlan | None = None,
        seed: int = 0,
        **options: Any,
    ) -> None:
        refuse_unknown(options)
        rescaler = SoftWeightRescaling(model, example_inputs, growth=growth, every=whole(every, "every"), plan=plan, **options)
        super().__init__(model, rescaler, seed=seed)
