"""Soft Weight Rescaling as one method among the others, and its variant for falling learning rates."""

from __future__ import annotations

from collections.abc import Mapping
from glob import escape
from typing import Any, ClassVar

from torch import nn
from torch.optim import Optimizer

from swr.algebra.plan import ScalePlan, analyze
from swr.errors import OptionError
from swr.hooks import Handle
from swr.methods.base import Method, PenaltyIn
from swr.methods.tools.layers import convolutions, linears, parts
from swr.rescaling import SoftWeightRescaling


class SWR(Method):
    """After every step, scale each layer's weights softly back to their initial norm (Algorithm 1).

        c_l = (λ n_l^init + (1 - λ) ‖W_l‖) / ‖W_l‖

    >>> method = SWR(model, x, coefficient=1e-3)
    >>> method = SWR(model, x, features=1e-4, classifier=1e-1)
    >>> handle = method.attach(optimizer)

    Args:
        example_inputs: a batch of inputs, to trace the model with.
        coefficient: λ for all layers; or
        features, classifier: λ_f for convolutions and the normalisation layers after them, λ_c for the fully connected part.
        plan: a plan of this model, in place of tracing it.
        options: the other options of :class:`swr.SoftWeightRescaling`.
    """

    name = "swr"
    title = "SWR"
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
        plan: ScalePlan | None = None,
        seed: int = 0,
        **options: Any,
    ) -> None:
        super().__init__(model, example_inputs, seed=seed)
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
        self.rescaler = SoftWeightRescaling(model, example_inputs, coefficient=coefficient, plan=plan, **options)

    def attach(self, optimizer: Optimizer, *, penalty: PenaltyIn = "gradients") -> Handle:
        """Rescale after every real step of this optimizer; there is no penalty."""
        self._handle = self.rescaler.attach(optimizer)
        return self._handle

    def step(self) -> None:
        """Rescale by hand."""
        self.rescaler.step()

    def state(self) -> dict[str, Any]:
        """What has to be saved."""
        return {"rescaler": self.rescaler.state_dict()}

    def load_state(self, state: dict[str, Any]) -> None:
        """The reverse of :meth:`state`."""
        self.rescaler.load_state_dict(state["rescaler"])


class SWRReinit(SWR):
    """SWR + re-init: when the learning rate drops, the current norms become the anchors.

    n_l^init <- ‖W_l‖   at the first step with a smaller learning rate
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
    return {escape(name): features if part[name] == "features" else classifier for name in names}
