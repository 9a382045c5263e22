"""DASH: shrink the weights that the new data do not agree with (Shin et al., 2024)."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from swr.checks import fraction
from swr.errors import ModelError
from swr.methods.base import Batches, LossFunction, Method
from swr.methods.tools.layers import affine_layers, wide
from swr.methods.tools.loss_gradients import gradients, new_data
from swr.methods.tools.optimizer_state import Policy, check_policy, forget
from swr.methods.tools.tuning import along


def shrunk(parameter: Tensor, descent: Tensor, floor: float) -> Tensor:
    """Each vector of a parameter times its cosine with the descent direction, kept between the floor and 1.

        w <- w · clip(cos(w, -∇_w L), λ, 1)

    A row of a matrix is a vector; so is the kernel between one input and one output channel, and a bias as a whole.

    >>> rows, descent = torch.tensor([[3.0, 4.0], [1.0, 0.0]]), torch.tensor([[4.0, 3.0], [0.0, -1.0]])
    >>> shrunk(rows, descent, 0.3)
    tensor([[2.8800, 3.8400],
            [0.3000, 0.0000]])
    """
    start = min(max(parameter.ndim - 1, 0), 2)
    one, other = (wide(t).flatten(start) for t in (parameter, descent))
    factors = _cosine(one, other).clamp(floor, 1.0)
    return parameter * factors.reshape(factors.shape + (1,) * (parameter.ndim - factors.ndim)).to(parameter.dtype)


class Dash(Method):
    """Shrink every weight vector by how little it agrees with the new data's descent direction.

        G <- (1 - α) G - α ∇L   over the batches;   w <- w · clip(cos(w, G_w), λ, 1)

    A vector w is a row of a fully connected layer, a kernel between two channels of a convolution (of a 1x1 convolution
    one number, whose cosine is ±1), or a whole bias.

    >>> method = Dash(model, floor=0.3, rate=0.3)
    >>> method.new_task([(x, torch.tensor([0, 1]))], nn.functional.cross_entropy)

    When:
        At a new task; goes once through its data, in order. The source's batches are whole chunks of data, old to new.

    Touches:
        Weights and biases of convolutions and fully connected layers, the head included. Gains, shifts and running statistics
        stay, and, as in the source, the optimizer's state: nothing is re-initialised.

    Keeps:
        The random numbers only, for networks with dropout.

    Args:
        floor: λ in [0, 1], what is left at least; with 1 nothing is done.
        rate: α in [0, 1], the weight of a new batch in G.
        optimizer_state: what the optimizer forgets of the shrunken tensors, a policy of
            :mod:`swr.methods.tools.optimizer_state`.

    References:
        B. Shin, J. Oh, H. Cho, C. Yun, 2024, "DASH: Warm-Starting Neural Network Training in Stationary Settings without Loss
        of Plasticity", NeurIPS; the authors' code, utils/train_utils.py.
    """

    name = "dash"
    title = "DASH"
    only_at_new_task = True
    tuning = along("floor", 0.05, 0.1, 0.2, 0.3, 0.5)
    owns = frozenset({"all weights at a new task"})
    symbols = {"floor": "λ", "rate": "α"}  # noqa: RUF012

    def __init__(
        self,
        model: nn.Module,
        example_inputs: Any = None,
        *,
        floor: float = 0.3,
        rate: float = 0.3,
        optimizer_state: Policy = "keep",
        seed: int = 0,
    ) -> None:
        super().__init__(model, example_inputs, seed=seed)
        self.floor = fraction(floor, "floor λ")
        self.rate = fraction(rate, "rate α")
        self.optimizer_state = check_policy(optimizer_state)
        layers = affine_layers(model)
        if not layers:
            raise ModelError("the model has no convolution or fully connected layer to shrink.")
        self._parameters: list[Tensor] = [p for layer in layers for p in (layer.weight, *layer.biases)]

    @torch.no_grad()
    def new_task(self, batches: Batches | None = None, loss_fn: LossFunction | None = None) -> None:
        """Shrink by the new data."""
        if self.floor == 1:
            return
        batches, loss_fn = new_data(self.title, batches, loss_fn)
        descent = [torch.zeros_like(p) for p in self._parameters]
        with gradients(self.model, self._parameters, loss_fn, self.generator) as gradient:
            for inputs, targets in batches:
                torch._foreach_mul_(descent, 1 - self.rate)
                torch._foreach_add_(descent, gradient(inputs, targets), alpha=-self.rate)
        for p, direction in zip(self._parameters, descent, strict=True):
            p.copy_(shrunk(p, direction, self.floor))
            forget(self.optimizer, p, policy=self.optimizer_state)


def _cosine(one: Tensor, other: Tensor) -> Tensor:
    """Along the last dimension; 0 for a vector of zeros. torch's own guards with 1e-8, more than a small gradient."""
    tiny = torch.finfo(one.dtype).tiny
    return (F.normalize(one, dim=-1, eps=tiny) * F.normalize(other, dim=-1, eps=tiny)).sum(-1)
