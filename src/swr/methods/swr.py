"""Soft Weight Rescaling as one method among the others: the paper's, and its variant for falling learning rates."""

from __future__ import annotations

from collections.abc import Mapping
from glob import escape
from typing import Any, ClassVar

from torch import nn

from swr.algebra.blocks import parameter_of
from swr.algebra.plan import ScalePlan, analyze
from swr.checks import whole
from swr.errors import OptionError
from swr.methods.bases.rescaling import Rescaling, refuse_unknown
from swr.methods.tools.layers import convolutions, linears, parts
from swr.methods.tools.tuning import along
from swr.rescaling import SoftWeightRescaling


class SWR(Rescaling):
    """After every step, scale each layer's weights softly back to their initial norm (Algorithm 1).

        c_l = (λ n_l + (1 - λ) ‖W_l‖) / ‖W_l‖,   n_l = ‖W_l‖ at the start

    >>> method = SWR(model, x, coefficient=1e-3)
    >>> method = SWR(model, x, features=1e-4, classifier=1e-1)
    >>> handle = method.attach(optimizer)

    Args:
        example_inputs: a batch of inputs, to trace the model with.
        coefficient: λ for all layers; or
        features, classifier: λ_f for convolutions and the normalisation layers after them, λ_c for the fully connected part.
        every: rescale only each n-th step, with 1 − (1 − λ)^n.
        plan: a plan of this model, in place of tracing it.
        options: the other options of :class:`swr.SoftWeightRescaling`.

    References:
        The weights' rule alone, W_l <- c_l W_l towards a target norm, is weight norm control (AdamWN; I. Loshchilov, 2023,
        "Weight Norm Control"), of which decoupled weight decay is the case of the target 0. SWR scales biases, shifts and
        running statistics along, so that the function is only multiplied by a constant.
    """

    name = "swr"
    title = "SWR"
    tuning = along("coefficient", 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
    symbols: ClassVar[Mapping[str, str]] = {"coefficient": "λ", "features": "λ_f", "classifier": "λ_c"}
    on_lr_decay: ClassVar[str] = "ignore"

    def __init__(
        self,
        model: nn.Module,
        example_inputs: Any = None,
        *,
        coefficient: float | Mapping[str, float] | None = None,
        features: float | None = None,
        classifier: float | None = None,
        every: int = 1,
        plan: ScalePlan | None = None,
        seed: int = 0,
        **options: Any,
    ) -> None:
        refuse_unknown(options, "features", "classifier")
        split = features is not None or classifier is not None
        if split == (coefficient is not None):
            raise OptionError("SWR wants either coefficient=λ for all layers, or both features=λ_f and classifier=λ_c.")
        if features is not None and classifier is not None:
            if plan is None and example_inputs is not None:
                plan = analyze(model, example_inputs, inhomogeneous=options.get("inhomogeneous", "hold"))
            coefficient = by_part(model, plan, features, classifier)
        if coefficient is None:
            raise OptionError("features=λ_f and classifier=λ_c belong together: give both.")
        options.setdefault("on_lr_decay", self.on_lr_decay)
        rescaler = SoftWeightRescaling(
            model, example_inputs, coefficient=coefficient, plan=plan, every=whole(every, "every"), **options
        )
        super().__init__(model, rescaler, seed=seed)


class SWRReinit(SWR):
    """SWR + re-init: when the learning rate drops, the current norms become the anchors.

    n_l <- ‖W_l‖   at the first step with a smaller learning rate
    """

    name = "swr-reinit"
    title = "SWR + re-init"
    on_lr_decay: ClassVar[str] = "rebase"


def by_part(model: nn.Module, plan: ScalePlan | None, features: float, classifier: float) -> dict[str, float]:
    """λ of every weight of the plan: λ_f in the feature extractor, λ_c in the classifier."""
    if not convolutions(model) or not linears(model):
        missing = "fully connected layer" if convolutions(model) else "convolution"
        raise OptionError(f"features and classifier cannot be told apart: the model has no {missing}; give coefficient=λ.")
    part = parts(model)
    names = part if plan is None else plan.weights
    return {escape(name): features if part[parameter_of(name)] == "features" else classifier for name in names}
