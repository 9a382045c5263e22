"""Hare & Tortoise: a fast network that returns to its slow average now and then (Lee et al., 2024)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from swr.checks import fraction
from swr.methods.base import learnable, restore
from swr.methods.bases.periodic import Periodic


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
    symbols = {"momentum": "μ", "every": "R"}  # noqa: RUF012

    def __init__(
        self, model: nn.Module, example_inputs: Any = None, *, momentum: float = 0.999, every: float = 2000, seed: int = 0
    ) -> None:
        super().__init__(model, example_inputs, every=every, seed=seed)
        self.momentum = fraction(momentum, "momentum μ")
        buffers = {name: buffer for name, buffer in model.named_buffers() if buffer.is_floating_point()}
        tensors: dict[str, Tensor] = {**learnable(model), **buffers}
        self._slow = {name: tensor.detach().clone() for name, tensor in tensors.items()}
        self._pairs = list(tensors.values()), list(self._slow.values())
        self._hare: list[Tensor] | None = None
        self._called = False
        """whether it was a call of the model that brought the tortoise in"""
        self._hooks = [
            model.register_forward_pre_hook(self._enter),
            model.register_forward_hook(self._leave, always_call=True),
        ]

    @torch.no_grad()
    def step(self) -> None:
        """φ <- μ φ + (1 - μ) θ, and θ <- φ when it is time."""
        fast, slow = self._pairs
        torch._foreach_lerp_(slow, fast, 1 - self.momentum)
        super().step()

    @torch.no_grad()
    def act(self) -> None:
        """θ <- φ."""
        fast, slow = self._pairs
        torch._foreach_copy_(fast, slow)

    @contextmanager
    def tortoise(self) -> Iterator[None]:
        """Inside, the model holds φ."""
        self._exchange()
        try:
            yield
        finally:
            self._return()

    def close(self) -> None:
        """Detach from the optimizer; the model is evaluated as it is again."""
        super().close()
        for hook in self._hooks:
            hook.remove()

    def _enter(self, module: nn.Module, inputs: Any) -> None:
        if not module.training and self._hare is None:
            self._exchange()
            self._called = True

    def _leave(self, module: nn.Module, inputs: Any, outputs: Any) -> None:
        if self._hare is not None and self._called:
            self._return()

    @torch.no_grad()
    def _exchange(self) -> None:
        fast, slow = self._pairs
        self._hare, self._called = list(torch._foreach_clone(fast)), False
        torch._foreach_copy_(fast, slow)

    @torch.no_grad()
    def _return(self) -> None:
        assert self._hare is not None
        torch._foreach_copy_(self._pairs[0], self._hare)
        self._hare = None

    def state(self) -> dict[str, Any]:
        """What has to be saved."""
        return {**super().state(), "slow": dict(self._slow)}

    def load_state(self, state: dict[str, Any]) -> None:
        """The reverse of :meth:`state`."""
        restore(self._slow, state["slow"])
        super().load_state(state)
