"""What the callbacks share: where the rescaler comes from, and what is logged of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

from swr.errors import OptionError
from swr.rescaling import SoftWeightRescaling


class Recipe:
    """How to make a rescaler once the framework shows its model.

    example_inputs, options: as in :class:`swr.SoftWeightRescaling`.
    ready: the callback was given a rescaler instead.
    """

    def __init__(self, example_inputs: Any, options: Mapping[str, Any], *, ready: bool) -> None:
        if ready and (example_inputs is not None or options):
            extra = ", ".join(["example_inputs"] if example_inputs is not None else sorted(options))
            raise OptionError(f"a ready rescaler has its options already; pass either rescaler or {extra}, not both.")
        self.example_inputs = example_inputs
        self.options = dict(options)

    @property
    def complete(self) -> bool:
        """Whether it says how to find the plan."""
        return self.example_inputs is not None or bool({"kwargs", "plan"} & set(self.options))

    def make(self, model: nn.Module) -> SoftWeightRescaling:
        """The rescaler of this model; its norms now are the anchors."""
        return SoftWeightRescaling(model, self.example_inputs, **self.options)


def measured(rescaler: SoftWeightRescaling) -> dict[str, float]:
    """‖W_l‖ and the scaler c_l that the next rescale will ask for, by the names they get in a log."""
    norms = {f"swr/norm/{name}": value for name, value in rescaler.norms().items()}
    return {**norms, **{f"swr/scaler/{name}": value for name, value in rescaler.scalers().items()}}
