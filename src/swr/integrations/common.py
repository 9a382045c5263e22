"""Shared by the callbacks: how the rescaler is built, which optimizers it attaches to, and which values are logged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn
from torch.optim import Optimizer

from swr.errors import AttachError, OptionError
from swr.hooks import group_of
from swr.rescaling import SoftWeightRescaling


class Recipe:
    """The arguments to build a rescaler as soon as the framework provides the model.

    Args:
        example_inputs: as in :class:`swr.SoftWeightRescaling`.
        options: as in :class:`swr.SoftWeightRescaling`.
        ready: whether the callback was given a rescaler instead.

    Raises:
        OptionError: a rescaler and options for another were both given.
    """

    def __init__(self, example_inputs: Any, options: Mapping[str, Any], *, ready: bool) -> None:
        if ready and (example_inputs is not None or options):
            extra = ", ".join(["example_inputs"] if example_inputs is not None else sorted(options))
            raise OptionError(f"a rescaler already has its options; pass either rescaler or {extra}, not both.")
        self.example_inputs = example_inputs
        self.options = dict(options)

    @property
    def complete(self) -> bool:
        """Whether it has example inputs or a plan."""
        return self.example_inputs is not None or bool({"kwargs", "plan"} & set(self.options))

    def make(self, model: nn.Module) -> SoftWeightRescaling:
        """Build the rescaler of this model; the current norms are the anchors."""
        return SoftWeightRescaling(model, self.example_inputs, **self.options)


def measured(rescaler: SoftWeightRescaling) -> dict[str, float]:
    """‖W_l‖ and the scaler c_l of the next rescale, by their names in a log."""
    norms = {f"swr/norm/{name}": value for name, value in rescaler.norms().items()}
    return {**norms, **{f"swr/scaler/{name}": value for name, value in rescaler.scalers().items()}}


def holders(model: nn.Module, optimizers: Sequence[Optimizer], whose: str) -> list[Optimizer]:
    """The optimizers that hold parameters of a model, compared by identity; the others are not attached to.

    Args:
        model: what is rescaled.
        optimizers: those of the framework.
        whose: where they come from, for the message.

    Raises:
        AttachError: none holds any.
    """
    parameters = list(model.parameters())
    if found := [o for o in optimizers if any(place is not None for place in group_of(o, parameters))]:
        return found
    raise AttachError(
        f"none of the {len(optimizers)} optimizers of {whose} holds parameters of {type(model).__name__}; build them from the "
        "parameters of the same module (copies are other parameters)."
    )
