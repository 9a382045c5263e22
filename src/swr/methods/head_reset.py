"""Head reset: re-initialise the fully connected layers when the data changes (Nikishin et al., 2022)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from swr.errors import ModelError, OptionError
from swr.methods.base import Batches, LossFunction, Method
from swr.methods.tools.fresh import Initialiser, forget_layers, own_initialiser, redraw
from swr.methods.tools.layers import convolutions, linears
from swr.methods.tools.optimizer_state import Policy, check_policy


class HeadReset(Method):
    """Re-initialise the fully connected layers with a fresh draw; of a network without convolutions only the last one.

    >>> method = HeadReset(model)
    >>> method.new_task()

    When:
        At a new task.

    Touches:
        Weights and biases of these layers.

    Keeps:
        Nothing.

    Differences:
        The values are a new draw, as the paper's text says. The authors of SWR copy the saved initial head in their code, so
        that every task starts from the same one.

    Args:
        layers: names of the modules to reset, in place of this choice.
        initialise: re-initialises one layer; by default its own ``reset_parameters()``.
        optimizer_state: what the optimizer forgets of these layers (needs ``attach``), a policy of
            :mod:`swr.methods.tools.optimizer_state`; by default nothing, as if the optimizer were not told. On streams the
            others were better (docs/leaderboard.md).
    """

    name = "head-reset"
    title = "head reset"
    only_at_new_task = True

    def __init__(
        self,
        model: nn.Module,
        example_inputs: Any = None,
        *,
        layers: Sequence[str] | None = None,
        initialise: Initialiser = own_initialiser,
        optimizer_state: Policy = "keep",
        seed: int = 0,
    ) -> None:
        super().__init__(model, example_inputs, seed=seed)
        self.layers = _head(model) if layers is None else _named(model, layers)
        self.initialise = initialise
        self.optimizer_state = check_policy(optimizer_state)

    def new_task(self, batches: Batches | None = None, loss_fn: LossFunction | None = None) -> None:
        """A fresh head."""
        redraw(self.layers, self.generator, self.initialise)
        forget_layers(self.optimizer, self.layers, self.optimizer_state)


def _head(model: nn.Module) -> list[nn.Module]:
    found: list[nn.Module] = list(linears(model))
    if not found:
        raise ModelError("the model has no nn.Linear to reset; name the layers of its head with layers=.")
    return found if convolutions(model) else found[-1:]


def _named(model: nn.Module, names: Sequence[str]) -> list[nn.Module]:
    modules = dict(model.named_modules())
    if unknown := [name for name in names if name not in modules]:
        raise OptionError(f"the model has no layer {unknown[0]!r}; it has {', '.join(filter(None, modules))}.")
    inside = {id(child): child for name in names for child in modules[name].modules()}
    return [module for module in inside.values() if next(module.parameters(recurse=False), None) is not None]
