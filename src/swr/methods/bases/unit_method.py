"""Methods that look at the units of a network while it trains, and recycle some of them."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from swr.errors import InputsError, ModelError, StateError
from swr.methods.base import Method
from swr.methods.tools.fresh import Initialiser, own_initialiser
from swr.methods.tools.optimizer_state import Policy, check_policy
from swr.methods.tools.recycling import recycle
from swr.methods.tools.unseen import Unseen
from swr.units import find_units


class UnitMethod(Method):
    """Sees the activations of every recyclable layer; a subclass says what it keeps of them and which units go.

    Forward hooks look at passes in training mode with gradients, and only when :meth:`watching` says so. Copies of the model,
    evaluation and target networks are not looked at. Inside ``torch.compile`` nothing can be seen, which is an error after
    a hundred steps. Each process sees its own batches and would choose its own units: not for data-parallel training.

    Args:
        example_inputs: a batch of inputs, to trace the model with; ``units.describe()`` then says what was found.
        initialise: re-initialises one layer; by default its own ``reset_parameters()``.
        optimizer_state: what the optimizer forgets of recycled units, a policy of :mod:`swr.methods.tools.optimizer_state`.
    """

    owns = frozenset({"which units are recycled"})

    def __init__(
        self,
        model: nn.Module,
        example_inputs: Any = None,
        *,
        initialise: Initialiser = own_initialiser,
        optimizer_state: Policy = "clear_moments",
        seed: int = 0,
    ) -> None:
        super().__init__(model, example_inputs, seed=seed)
        self.initialise = initialise
        self.optimizer_state = check_policy(optimizer_state)
        if example_inputs is None:
            raise InputsError(f"{type(self).__name__} traces the model to find its units: pass example_inputs, one batch.")
        self.units = find_units(model, example_inputs)
        if not self.units.layers:
            raise ModelError(f"no unit of this model can be recycled:\n{self.units.describe()}")
        self._unseen = Unseen()
        self._hooks = [
            model.get_submodule(layer.site.module).register_forward_hook(_Listener(self, i))
            for i, layer in enumerate(self.units.layers)
        ]

    @property
    def total(self) -> int:
        """How many units there are; the layers' units follow each other in vectors of this length."""
        return sum(layer.size for layer in self.units.layers)

    def split(self, vector: Tensor) -> tuple[Tensor, ...]:
        """The parts of a vector over all units, one a layer."""
        parts: tuple[Tensor, ...] = vector.split([layer.size for layer in self.units.layers])
        return parts

    def watching(self) -> bool:
        """Whether the next pass is to be looked at."""
        return True

    def see(self, layer: int, activation: Tensor) -> None:
        """The activation of a layer in a training pass: [examples, ..., units], detached."""
        raise NotImplementedError

    def blind(self, unseen: bool) -> bool:
        """Whether there was no pass to look at before this step; a hundred such steps in a row are an error."""
        return self._unseen.count(unseen and self.watching()) or unseen

    def recycle(self, chosen: Iterable[tuple[int, Tensor]]) -> None:
        """Recycle units, given as layers with indices of units."""
        pairs = [(self.units.layers[layer], index) for layer, index in chosen]
        recycle(
            self.model,
            pairs,
            self.generator,
            initialise=self.initialise,
            optimizer=self.optimizer,
            optimizer_state=self.optimizer_state,
        )

    def close(self) -> None:
        """Detach from the optimizer and remove the hooks."""
        super().close()
        for hook in self._hooks:
            hook.remove()

    def state(self) -> dict[str, Any]:
        """What has to be saved."""
        return {"units": {layer.name: layer.size for layer in self.units.layers}}

    def load_state(self, state: dict[str, Any]) -> None:
        """The reverse of :meth:`state`."""
        if state["units"] != UnitMethod.state(self)["units"]:
            raise StateError("the state belongs to another model: its units are not those of this one.")


def mean_magnitude(activation: Tensor, nonnegative: bool = False) -> Tensor:
    """Mean |h_i| over examples and places, in at least single precision; units along the last axis.

    Args:
        nonnegative: h_i >= 0 is known, which saves the absolute values.
    """
    magnitude = activation if nonnegative else activation.abs()
    dtype = torch.promote_types(activation.dtype, torch.float32)
    return magnitude.mean(tuple(range(activation.ndim - 1)), dtype=dtype) if activation.ndim > 1 else magnitude.to(dtype)


class _Listener:
    """Hands the activation of a layer to the method; copied or pickled with the model, it does nothing."""

    def __init__(self, method: UnitMethod | None = None, layer: int = 0) -> None:
        self._method = weakref.ref(method) if method is not None else lambda: None
        self._layer = layer

    def __call__(self, module: nn.Module, inputs: Any, output: Any) -> None:
        if torch.compiler.is_compiling():  # first: what a trace reads it has to guard, and counters change at every step
            return
        method = self._method()
        if method is None or not (method.watching() and method.model.training and torch.is_grad_enabled()):
            return
        site = method.units.layers[self._layer].site
        if not isinstance(output, Tensor):
            raise ModelError(
                f"{site.module} returns a {type(output).__name__}, so that its units cannot be seen; return a tensor."
            )
        with torch.no_grad():
            method.see(self._layer, site.activation(output.detach()).movedim(site.axis, -1))

    def __reduce__(self) -> tuple[type[_Listener], tuple[()]]:
        return _Listener, ()
