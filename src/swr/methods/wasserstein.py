"""Empirical Wasserstein regularisation: keep the distribution of each tensor's entries (Lewandowski et al., 2023)."""

from __future__ import annotations

from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from swr.checks import choice
from swr.methods.base import learnable, restore
from swr.methods.bases.penalty import Penalty
from swr.methods.tools.layers import wide
from swr.methods.tools.tuning import DECADES

Reduction = Literal["sum", "mean"]


def matched(tensor: Tensor, ordered: Tensor) -> Tensor:
    """The values in the order of the tensor: its smallest entry gets the smallest value, and so on.

    >>> matched(torch.tensor([3.0, 1.0, 2.0]), torch.tensor([0.0, 1.0, 5.0]))
    tensor([5., 0., 1.])

    Args:
        ordered: as many values, from the smallest to the largest.
    """
    order = _order(tensor.detach().reshape(-1))
    return torch.empty_like(ordered).scatter_(0, order, ordered).view(tensor.shape)


class Wasserstein(Penalty):
    """Penalise the distance between the entries of each tensor now and at the start, as two sets of numbers.

        loss + λ Σ_l Σ_i (sort(W_l)_i - sort(W_l^0)_i)²

    the squared 2-Wasserstein distance of two empirical distributions, times their size. Entries may change places for
    nothing, so it never exceeds ‖θ - θ_0‖² of L2 Init.

    >>> method = Wasserstein(model, coefficient=1e-3)
    >>> handle = method.attach(optimizer)

    When:
        In the loss. The order is taken as constant: the gradient of an entry is 2λ (W_j - the value it is matched with).

    Touches:
        All learnable parameters, tensor by tensor, biases and gains included, as L2 Init does here; the paper leaves it open.
        One sort per tensor and step.

    Keeps:
        The sorted initial parameters, the size of the model once more.

    Differences:
        Each tensor's term is a sum over its entries here. Published code (parseval_reg) takes the mean, so that λ here is that
        λ divided by the number of entries, another one for every tensor: ``reduction="mean"`` is that form.

    Args:
        coefficient: λ, at least 0.
        reduction: "sum", as above; "mean" divides each tensor's term by its size, as some published code does: λ of one is not
            λ of the other.

    References:
        A. Lewandowski, H. Tanaka, D. Schuurmans, M. Machado, 2023, "Curvature Explains Loss of Plasticity", arXiv 2312.00246.
    """

    name = "wasserstein"
    title = "Wasserstein"
    tuning = DECADES

    def __init__(
        self,
        model: nn.Module,
        example_inputs: Any = None,
        *,
        coefficient: float = 1e-3,
        reduction: Reduction = "sum",
        seed: int = 0,
    ) -> None:
        super().__init__(model, example_inputs, coefficient=coefficient, seed=seed)
        choice(reduction, "reduction", get_args(Reduction))
        self.reduction = reduction
        self._parameters = learnable(model)
        self._ordered = {name: wide(p.detach()).reshape(-1).sort().values for name, p in self._parameters.items()}

    def value(self) -> Tensor | None:
        """Σ of the squared differences of the sorted entries."""
        if not self._parameters:
            return None
        parameters = [wide(p) for p in self._parameters.values()]
        targets = [matched(p, ordered) for p, ordered in zip(parameters, self._ordered.values(), strict=True)]
        squares = [difference.square() for difference in torch._foreach_sub(parameters, targets)]
        return torch.stack([s.sum() if self.reduction == "sum" else s.mean() for s in squares]).sum()

    def state(self) -> dict[str, Any]:
        """What has to be saved."""
        return {"ordered": dict(self._ordered)}

    def load_state(self, state: dict[str, Any]) -> None:
        """The reverse of :meth:`state`."""
        restore(self._ordered, state["ordered"])


def _order(values: Tensor) -> Tensor:
    """What argsort gives. On a CPU torch sorts integers several times faster, and the bits of floats are nearly in order."""
    if values.dtype is not torch.float32:
        return values.argsort()
    bits = values.view(torch.int32)
    return (bits ^ ((bits >> 31) & 0x7FFFFFFF)).argsort()  # of negative numbers the order of the bits is reversed
