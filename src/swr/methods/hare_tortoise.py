"""Hare & Tortoise: a fast network that returns to its slow average now and then (Lee et al., 2024)."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, ClassVar

from torch import nn

from swr.checks import fraction
from swr.methods.base import Turn
from swr.methods.bases.periodic import Periodic
from swr.methods.tools.evaluation_copy import EvaluationCopy
from swr.methods.tools.tuning import along


class HareTortoise(Periodic):
    """Train a hare θ, average it into a tortoise φ, and set the hare back to the tortoise every R steps.

        φ <- μ φ + (1 - μ) θ   after every step;   θ <- φ   after every R-th,   φ_0 = θ_0

    The model holds the hare. **The tortoise is evaluated**: whenever the model is called in evaluation mode
    (``model.eval()``) it runs with φ, and holds the hare again afterwards, so that a loop needs no line more.

    >>> method = HareTortoise(model, momentum=0.999, every=2000)
    >>> handle = method.attach(optimizer)
    >>> with method.tortoise():  # φ in place, to save it
    ...     slow = {name: tensor.clone() for name, tensor in model.state_dict().items()}

    When:
        At every step; new tasks change nothing.

    Touches:
        All learnable parameters, and buffers of floating-point numbers (running statistics), which are averaged and set back
        like them; whole numbers stay the hare's. The optimizer's state goes on.

    Keeps:
        φ, once more the size of the model, and the steps.

    Args:
        momentum: μ in [0, 1].
        every: R in steps; infinity for never. The paper's is ten epochs: about 2,000 steps of CIFAR-10 in batches of 256.

    References:
        H. Lee et al., 2024, "Slow and Steady Wins the Race: Maintaining Plasticity with Hare and Tortoise Networks", ICML; the
        authors' code, src/trainers/base.py. Its reset makes both share one storage, so that the next step moves the tortoise
        too; here values are copied.
    """

    name = "hare-tortoise"
    title = "Hare & Tortoise"
    tuning = along("momentum", 0.9, 0.99, 0.995, 0.999, 0.9999)
    symbols = {"momentum": "μ", "every": "R"}  # noqa: RUF012
    owns = frozenset({"which copy of the weights is evaluated"})
    turn: ClassVar[Turn] = "last"

    def __init__(
        self, model: nn.Module, example_inputs: Any = None, *, momentum: float = 0.999, every: float = 2000, seed: int = 0
    ) -> None:
        super().__init__(model, example_inputs, every=every, seed=seed)
        self.momentum = fraction(momentum, "momentum μ")
        self._copy = EvaluationCopy(model)

    def step(self) -> None:
        """φ <- μ φ + (1 - μ) θ, and θ <- φ when it is time."""
        self._copy.average(self.momentum)
        super().step()

    def act(self) -> None:
        """θ <- φ."""
        self._copy.write_back()

    def tortoise(self) -> AbstractContextManager[None]:
        """Inside, the model holds φ."""
        return self._copy.in_place()

    def close(self) -> None:
        """Detach from the optimizer; the model is evaluated as it is again."""
        super().close()
        self._copy.close()

    def state(self) -> dict[str, Any]:
        """What has to be saved."""
        return {**super().state(), "slow": dict(self._copy.tensors)}

    def load_state(self, state: dict[str, Any]) -> None:
        """The reverse of :meth:`state`."""
        self._copy.load(state["slow"])
        super().load_state(state)
