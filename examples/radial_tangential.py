"""Is it the norm, or is it which entries decay? L2 under Adam, taken apart into its radial and its tangential part.

L2 adds λ θ to the gradient. Adam divides every entry by the root of its second moment, to which λ θ contributes too, so that
what reaches the weights is about

    d = λ θ / (√(v̂ + λ² θ²) + ε)        v̂ = the second moment of the loss's gradient

and no longer points along θ: entries with small gradients decay faster. Its radial part shortens a tensor, which SWR does too;
its tangential part turns it, which SWR never does. With the bench, from the folder above this one:

    swr run permuted-pixels --columns digits-mlp --seeds 3 --methods \\
        swr l2 examples.radial_tangential:RadialL2 swr+examples.radial_tangential:TangentialL2

If SWR with the tangential part matches L2 where SWR alone does not, the selective decay is what L2 has and SWR lacks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from swr.errors import AttachError
from swr.methods import Method


def radial(direction: Tensor, tensor: Tensor) -> Tensor:
    """The component of a direction along a tensor.

    >>> radial(torch.tensor([1.0, 0.0]), torch.tensor([1.0, 1.0]))
    tensor([0.5000, 0.5000])
    """
    squared = tensor.square().sum()
    return torch.where(squared > 0, (direction * tensor).sum() / squared, 0.0) * tensor


class _PartOfL2(Method):
    """θ <- θ - η (a part of d), after every step; tensor by tensor, all learnable parameters as L2."""

    symbols: ClassVar[Mapping[str, str]] = {"coefficient": "λ"}
    turn = "first"

    def __init__(self, model: nn.Module, example_inputs: Any = None, *, coefficient: float = 1e-3, seed: int = 0) -> None:
        super().__init__(model, example_inputs, seed=seed)
        self.coefficient = coefficient
        self._decayed = [p for p in model.parameters() if p.requires_grad]

    def part(self, decay: Tensor, tensor: Tensor) -> Tensor:
        """The part of d that acts."""
        raise NotImplementedError

    def step(self) -> None:
        """Not by hand: v̂ and η are the optimizer's."""
        raise AttachError(f"{self.title} depends on Adam's second moment; call attach(optimizer).")

    @torch.no_grad()
    def after_step(self, optimizer: Optimizer) -> None:
        """Decay once."""
        rates = {id(p): group for group in optimizer.param_groups for p in group["params"]}
        for p in self._decayed:
            group, state = rates.get(id(p)), optimizer.state.get(p)
            if group is None or not state:  # another optimizer's, or it has had no gradient yet
                continue
            if "exp_avg_sq" not in state:
                raise AttachError(
                    f"{self.title} is the effect of L2 under Adam; {type(optimizer).__name__} has no second moment, and "
                    "without one L2 has no tangential part."
                )
            second = state["exp_avg_sq"] / (1 - group["betas"][1] ** state["step"])
            pull = self.coefficient * p
            p.sub_(self.part(pull / (second + pull.square()).sqrt_().add_(group["eps"]), p) * group["lr"])


class TangentialL2(_PartOfL2):
    """The part of L2's decay under Adam that turns the weights and keeps their norms, to first order.

    θ <- θ - η (d - <d, θ> / ‖θ‖² θ)
    """

    title = "tangential L2"

    def part(self, decay: Tensor, tensor: Tensor) -> Tensor:
        """D without its component along θ."""
        return decay - radial(decay, tensor)


class RadialL2(_PartOfL2):
    """The part of L2's decay under Adam that shortens the weights and keeps their directions.

    θ <- θ - η <d, θ> / ‖θ‖² θ
    """

    title = "radial L2"

    def part(self, decay: Tensor, tensor: Tensor) -> Tensor:
        """The component of d along θ."""
        return radial(decay, tensor)
