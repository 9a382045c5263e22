"""RIFLE: re-initialise the last layer within a training (Li et al., 2020)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from swr.checks import whole
from swr.errors import ModelError, OptionError
from swr.methods.base import Batches, LossFunction, Method
from swr.methods.tools.fresh import Initialiser, inside, own_initialiser, redraw
from swr.methods.tools.layers import linears
from swr.methods.tools.optimizer_state import Policy, check_policy, forget


def boundaries(total: int, resets: int) -> tuple[int, ...]:
    """The ends of all but the last of ``resets + 1`` periods, as equal as whole numbers can be; never the end itself.

    >>> boundaries(40, 1), boundaries(12, 2), boundaries(10, 2)
    ((20,), (4, 8), (3, 6))
    """
    return tuple(total * i // (resets + 1) for i in range(1, resets + 1))


class Rifle(Method):
    """Re-initialise the last fully connected layer a few times during one training, so that deeper layers must learn.

        P = r + 1 equal periods;   W_L, b_L <- fresh   after each but the last

    >>> method = Rifle(model, resets=1, total_steps=40)  # after 20 steps
    >>> handle = method.attach(optimizer)

    When:
        After the step that ends a period, when ``total_steps`` is given; a new task then begins a new training and its count.
        Without it the length of a training is not known, and the layer is re-initialised at each new task. Never after the last
        step: the authors' code does that when P divides the epochs, and returns a random head.

    Touches:
        Weight and bias of the last fully connected layer. The authors keep its momentum; here the one policy of all resets
        applies. Their cyclic learning rate of the head is the loop's to set.

    Keeps:
        The steps of this training.

    Args:
        resets: r; with 0 nothing is done.
        total_steps: optimizer steps of one training; None: at new tasks.
        layers: names of the modules to reset, in place of the last ``nn.Linear``.
        initialise: re-initialises one layer; by default its own ``reset_parameters()``.
        optimizer_state: what the optimizer forgets of the head, a policy of :mod:`swr.methods.tools.optimizer_state`.

    References:
        X. Li, H. Xiong, H. An, C.-Z. Xu, D. Dou, 2020, "RIFLE: Backpropagation in Depth for Deep Transfer Learning through
        Re-Initializing the Fully-connected LayEr", ICML; the authors' code, train.py.
    """

    name = "rifle"
    title = "RIFLE"
    symbols = {"resets": "r"}  # noqa: RUF012

    def __init__(
        self,
        model: nn.Module,
        example_inputs: Any = None,
        *,
        resets: int = 1,
        total_steps: int | None = None,
        layers: Sequence[str] | None = None,
        initialise: Initialiser = own_initialiser,
        optimizer_state: Policy = "clear_moments",
        seed: int = 0,
    ) -> None:
        super().__init__(model, example_inputs, seed=seed)
        self.resets = whole(resets, "resets r", 0)
        self.total_steps = None if total_steps is None else whole(total_steps, "total_steps")
        if self.total_steps is not None and self.total_steps <= self.resets:
            raise OptionError(f"{resets} resets need more than {total_steps} total_steps: one for each period.")
        self.layers: list[nn.Module] = _last(model) if layers is None else inside(model, layers)
        self.initialise = initialise
        self.optimizer_state = check_policy(optimizer_state)
        self._boundaries = () if self.total_steps is None else boundaries(self.total_steps, self.resets)
        self._steps = 0

    def step(self) -> None:
        """Count, and reset at the end of a period."""
        self._steps += 1
        if self._steps in self._boundaries:
            self._reset()

    def new_task(self, batches: Batches | None = None, loss_fn: LossFunction | None = None) -> None:
        """A new training: count from 0, or, when its length is unknown, a fresh head."""
        self._steps = 0
        if self.total_steps is None and self.resets:
            self._reset()

    def _reset(self) -> None:
        redraw(self.layers, self.generator, self.initialise)
        for layer in self.layers:
            for p in layer.parameters(recurse=False):
                forget(self.optimizer, p, policy=self.optimizer_state)

    def state(self) -> dict[str, Any]:
        """What has to be saved."""
        return {"steps": self._steps}

    def load_state(self, state: dict[str, Any]) -> None:
        """The reverse of :meth:`state`."""
        self._steps = int(state["steps"])


def _last(model: nn.Module) -> list[nn.Module]:
    found = linears(model)
    if not found:
        raise ModelError("the model has no nn.Linear to reset; name the layers of its head with layers=.")
    return [found[-1]]
