"""Shared by the callbacks: how the rescaler is built, and which values are logged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

from swr.errors import OptionError
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
