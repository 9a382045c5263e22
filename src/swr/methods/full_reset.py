"""Full reset: start from scratch whenever the data changes, the reference for what a stage's data alone can give."""

from __future__ import annotations

from typing import Any

from torch import nn

from swr.methods.base import Batches, LossFunction, Method
from swr.methods.tools.fresh import Initialiser, forget_layers, own_initialiser, redraw
from swr.methods.tools.optimizer_state import Policy, check_policy


class FullReset(Method):
    """Re-initialise every layer with a fresh draw, running statistics included, when the data changes.

    >>> method = FullReset(model)
    >>> handle = method.attach(optimizer)
    >>> method.new_task()

    Args:
        initialise: re-initialises one layer; by default its own ``reset_parameters()``.
        optimizer_state: what the optimizer forgets (needs ``attach``), a policy of :mod:`swr.methods.tools.optimizer_state`; by
            default everything.
    """

    name = "full-reset"
    title = "full reset"
    only_at_new_task = True
    owns = frozenset({"all weights at a new task"})

    def __init__(
        self,
        model: nn.Module,
        example_inputs: Any = None,
        *,
        initialise: Initialiser = own_initialiser,
        optimizer_state: Policy = "clear_all",
        seed: int = 0,
    ) -> None:
        super().__init__(model, example_inputs, seed=seed)
        self.layers = [module for module in model.modules() if next(module.parameters(recurse=False), None) is not None]
        self.initialise = initialise
        self.optimizer_state = check_policy(optimizer_state)

    def new_task(self, batches: Batches | None = None, loss_fn: LossFunction | None = None) -> None:
        """A fresh network."""
        redraw(self.layers, self.generator, self.initialise)
        forget_layers(self.optimizer, self.layers, self.optimizer_state)
