"""What a monitor can measure: each name, when it looks at the network, and the numbers it gives.

norm              norm/W             ‖W_l‖ of every layer
ratio             ratio/W            ‖W_l‖ / n_l^init
balance           balance/…          b_t between layers, the largest and the mean over all pairs (Theorem 3)
limit             limit/W, slack/W   B' and B' − ‖W_l‖ (Theorem 2); needs a rescaler as anchors
gradient          gradient/p         ‖∂L/∂p‖ of every parameter as the step used it, and over all of them
update            update/W           ‖ΔW_l‖ / ‖W_l‖ of the optimizer's own step, before anything else acts on the weights
proportionality   proportionality/…  of what acted on the network after the step, such as a rescale (Theorem 1); needs inputs
dormant           dormant/h          the fraction of dormant units in every layer, and of all; needs inputs
rank              rank/…             effective, srank and stable rank of the penultimate features; needs inputs
lipschitz         lipschitz/…        the spectral and the Frobenius bound; needs inputs
curvature         curvature          the largest eigenvalue of the Hessian; needs a batch and a loss function
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from torch import Tensor, nn

from swr.algebra.graph import Traced
from swr.diagnostics.bounds import norm_limits, slack, squared_changes
from swr.diagnostics.curvature import curvature
from swr.diagnostics.dormancy import dormant_units
from swr.diagnostics.gradients import LossFunction, gradient_norms, saved_weights, update_ratios
from swr.diagnostics.layer_norms import Norms, anchors_of, balance, layer_norms, norm_ratios
from swr.diagnostics.lipschitz.bound import bound_along, traced_for_bound
from swr.diagnostics.proportional import proportionality
from swr.diagnostics.ranks import feature_ranks
from swr.errors import OptionError
from swr.probe import outputs, undisturbed
from swr.rescaling import SoftWeightRescaling

Numbers = dict[str, float]

MeasureName = Literal[
    "norm",
    "ratio",
    "balance",
    "limit",
    "gradient",
    "update",
    "proportionality",
    "dormant",
    "rank",
    "lipschitz",
    "curvature",
]

UserMeasure = Callable[[nn.Module], float | Mapping[str, float]]
"""a function of the model that returns a number, or numbers by name"""


@dataclass
class View:
    """The data that measures read.

    Attributes:
        model: the model being trained.
        start: the norms when the monitor was built, or those that it was given.
        rescaler: the rescaler, if the monitor was given one as anchors.
        inputs: inputs for measures that run the network.
        batch: inputs and targets for measures that need the loss.
        loss_fn: a function of outputs and targets that returns the mean loss.
    """

    model: nn.Module
    start: Norms
    rescaler: SoftWeightRescaling | None = None
    inputs: Any = None
    batch: tuple[Any, Any] | None = None
    loss_fn: LossFunction | None = None

    @property
    def anchors(self) -> Norms:
        """n_l^init: the rescaler's anchor where it has one, else the norm at the start."""
        return self.start if self.rescaler is None else {**self.start, **anchors_of(self.rescaler)}


class Measure:
    """One quantity; a monitor calls its methods around a step that is due.

    Attributes:
        needs: the fields of the view that must not be None.
        stepped: whether it measures a step, so that it has no value before the first one.
    """

    needs: ClassVar[tuple[str, ...]] = ()
    stepped: ClassVar[bool] = False

    def __init__(self, view: View) -> None:
        self.view = view

    def before(self) -> None:
        """Called before the optimizer's step."""

    def between(self) -> None:
        """Called right after the optimizer's own update, before other hooks such as a rescaler's."""

    def numbers(self) -> Numbers:
        """The values by name; called after all hooks of the step."""
        raise NotImplementedError

    def state(self) -> Any:
        """The state to save in a checkpoint, or None."""
        return None

    def load(self, state: Any) -> None:
        """Restore what :meth:`state` returned."""


class Norm(Measure):
    """‖W_l‖."""

    def numbers(self) -> Numbers:
        """See :func:`~swr.diagnostics.layer_norms`."""
        return _below("norm", layer_norms(self.view.model))


class Ratio(Measure):
    """‖W_l‖ / n_l^init."""

    def numbers(self) -> Numbers:
        """See :func:`~swr.diagnostics.norm_ratios`."""
        return _below("ratio", norm_ratios(layer_norms(self.view.model), self.view.anchors))


class Balance(Measure):
    """b_t over all pairs of layers."""

    def numbers(self) -> Numbers:
        """See :func:`~swr.diagnostics.balance`."""
        pairs = balance(layer_norms(self.view.model), self.view.anchors).values()
        return {"balance/largest": max(pairs), "balance/mean": sum(pairs) / len(pairs)} if pairs else {}


class Limit(Measure):
    """B' with B the largest change of ‖W_l‖² over the steps that were due, and the slack to it."""

    needs = ("rescaler",)
    stepped = True

    def __init__(self, view: View) -> None:
        super().__init__(view)
        self._largest: Numbers = {}
        self._norms: Norms = {}

    def before(self) -> None:
        """‖W^c_{t−1}‖."""
        self._norms = layer_norms(self.view.model)

    def between(self) -> None:
        """‖W_t‖."""
        for name, change in squared_changes(self._norms, layer_norms(self.view.model)).items():
            self._largest[name] = max(change, self._largest.get(name, 0.0))

    def numbers(self) -> Numbers:
        """See :func:`~swr.diagnostics.norm_limits`."""
        assert self.view.rescaler is not None
        limits = norm_limits(self.view.rescaler, self._largest)
        return _below("limit", limits) | _below("slack", slack(limits, layer_norms(self.view.model)))

    def state(self) -> Numbers:
        """B as measured so far."""
        return dict(self._largest)

    def load(self, state: Numbers) -> None:
        """Restore B."""
        self._largest = dict(state)


class Gradient(Measure):
    """‖∂L/∂p‖ as the step used it."""

    stepped = True

    def numbers(self) -> Numbers:
        """See :func:`~swr.diagnostics.gradient_norms`."""
        norms = gradient_norms(self.view.model)
        return {"gradient": math.hypot(*norms.values()), **_below("gradient", norms)} if norms else {}


class Update(Measure):
    """‖ΔW_l‖ / ‖W_l‖ of the optimizer's own update."""

    stepped = True

    def __init__(self, view: View) -> None:
        super().__init__(view)
        self._before: dict[str, Tensor] = {}
        self._ratios: Numbers = {}

    def before(self) -> None:
        """Copy the weights, for this step only."""
        self._before = saved_weights(self.view.model)

    def between(self) -> None:
        """Compare with the copy and delete it."""
        self._ratios = update_ratios(self.view.model, self._before)
        self._before = {}

    def numbers(self) -> Numbers:
        """See :func:`~swr.diagnostics.update_ratios`."""
        return _below("update", self._ratios)


class Proportional(Measure):
    """The proportionality error between the network before and after the other hooks."""

    needs = ("inputs",)
    stepped = True

    def between(self) -> None:
        """f_θ(x) before the other hooks."""
        self._outputs = outputs(self.view.model, self.view.inputs)

    def numbers(self) -> Numbers:
        """See :func:`~swr.diagnostics.proportionality`."""
        found = proportionality(self._outputs, outputs(self.view.model, self.view.inputs))
        return {"proportionality/error": found.error, "proportionality/constant": found.constant}


class DormantUnits(Measure):
    """Dormant units."""

    needs = ("inputs",)

    def numbers(self) -> Numbers:
        """See :func:`~swr.diagnostics.dormant_units`."""
        found = dormant_units(self.view.model, self.view.inputs)
        return {"dormant": found.total, **_below("dormant", found.fractions)}


class Rank(Measure):
    """Ranks of the features."""

    needs = ("inputs",)

    def numbers(self) -> Numbers:
        """See :func:`~swr.diagnostics.feature_ranks`."""
        found = feature_ranks(self.view.model, self.view.inputs)
        return {"rank/effective": found.effective, "rank/srank": found.srank, "rank/stable": found.stable}


class Lipschitz(Measure):
    """Both bounds; the network is traced once."""

    needs = ("inputs",)

    def __init__(self, view: View) -> None:
        super().__init__(view)
        self._traced: Traced | None = None

    def numbers(self) -> Numbers:
        """See :func:`~swr.diagnostics.lipschitz_bound`."""
        if self._traced is None:
            self._traced = traced_for_bound(self.view.model, self.view.inputs)
        bound = bound_along(self._traced, self.view.model)
        return {"lipschitz/spectral": bound.spectral, "lipschitz/frobenius": bound.frobenius}


class Curvature(Measure):
    """The largest eigenvalue of the Hessian."""

    needs = ("batch", "loss_fn")

    def numbers(self) -> Numbers:
        """See :func:`~swr.diagnostics.curvature`."""
        assert self.view.batch is not None
        assert self.view.loss_fn is not None
        return {"curvature": curvature(self.view.model, self.view.batch, self.view.loss_fn)}


class Own(Measure):
    """A user's function of the model."""

    def __init__(self, view: View, function: UserMeasure) -> None:
        super().__init__(view)
        self._function = function

    def numbers(self) -> Numbers:
        """The function's number under its name, or its numbers under ``name/key``."""
        name = self._function.__name__
        with undisturbed(self.view.model):
            found = self._function(self.view.model)
        return _below(name, found) if isinstance(found, Mapping) else {name: float(found)}


MEASURES: dict[MeasureName, type[Measure]] = {
    "norm": Norm,
    "ratio": Ratio,
    "balance": Balance,
    "limit": Limit,
    "gradient": Gradient,
    "update": Update,
    "proportionality": Proportional,
    "dormant": DormantUnits,
    "rank": Rank,
    "lipschitz": Lipschitz,
    "curvature": Curvature,
}

CHEAP: tuple[MeasureName, ...] = ("norm", "ratio", "balance", "gradient", "update")
"""the default measures; with a rescaler, limit too"""


def build(name: MeasureName | UserMeasure, view: View) -> Measure:
    """The measure of a name, or of a user's function."""
    if callable(name):
        return Own(view, name)
    if name not in MEASURES:
        raise OptionError(
            f"there is no measure {name!r}; the measures are {', '.join(MEASURES)}. Or pass a function of the model."
        )
    measure = MEASURES[name](view)
    if missing := [field for field in measure.needs if getattr(view, field) is None]:
        ways = {
            "rescaler": "anchors=rescaler (a SoftWeightRescaling)",
            "inputs": "inputs= or batch=",
            "batch": "batch=(inputs, targets)",
            "loss_fn": "loss_fn=",
        }
        raise OptionError(f"the measure {name!r} needs {' and '.join(ways[field] for field in missing)}.")
    return measure


def _below(prefix: str, values: Mapping[str, float]) -> Numbers:
    return {f"{prefix}/{name}": float(value) for name, value in values.items()}
