"""Weight Rescaling: bring the spread of every layer's weights back to what it was at the start (Niehaus et al., 2024)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, get_args

import torch
from torch import Tensor, nn

from swr.checks import choice, positive
from swr.methods.base import restore
from swr.methods.bases.periodic import Periodic
from swr.methods.tools.layers import affine_layers, wide
from swr.methods.tools.tuning import along

Per = Literal["layer", "channel"]


def rescale_deviations(
    weights: Sequence[Tensor], targets: Sequence[Tensor], dims: Sequence[Sequence[int]], *, centred: bool = True
) -> None:
    """W <- μ + (s_0 / s)(W - μ) in place, with the mean μ and the standard deviation s over the given dimensions.

    >>> w = torch.tensor([[1.0, 3.0], [5.0, 7.0]])
    >>> rescale_deviations([w], [torch.tensor([[1.0]])], [(0, 1)])
    >>> w
    tensor([[2.6584, 3.5528],
            [4.4472, 5.3416]])

    Args:
        weights: W, which take no gradient now.
        targets: s_0, with the dimensions kept; where s_0 or s is 0, nothing is done.
        dims: of every weight.
        centred: False multiplies all of W, its mean too.
    """
    found = [torch.var_mean(wide(w), dim=tuple(d), correction=0, keepdim=True) for w, d in zip(weights, dims, strict=True)]
    factors = [
        torch.where((variance > 0) & (target > 0), target / variance.sqrt(), 1.0)
        for (variance, _), target in zip(found, targets, strict=True)
    ]
    torch._foreach_mul_(list(weights), factors)
    if centred:
        torch._foreach_add_(list(weights), [(1 - f) * mean for f, (_, mean) in zip(factors, found, strict=True)])


class WeightRescaling(Periodic):
    """Every n steps, give each weight tensor c times the standard deviation it was initialised with.

        W <- μ + c (s_0 / s) (W - μ),   μ, s = mean and standard deviation (population) of W now, s_0 at the start

    >>> method = WeightRescaling(model, every=10)
    >>> handle = method.attach(optimizer)

    When:
        After every n-th step of the optimizer.

    Touches:
        Weights of convolutions and fully connected layers, the head included. Biases, normalisation layers and the optimizer's
        state stay, so the function is kept only where a normalisation layer follows.

    Keeps:
        s_0, the number of steps.

    Args:
        every: n, 1, 10 or 100 in published code; infinity for never.
        multiplier: c, above 0.
        per: "layer", one deviation per weight tensor; or "channel", one per output unit.
        centred: False for W <- c (s_0 / s) W, which scales the mean too.

    References:
        L. Niehaus, U. Krumnack, G. Heidemann, 2024, "Weight Rescaling: Applying Initialization Strategies During Training". The
        paper was not at hand: whether s belongs to a layer or an output channel, and n, are open.
    """

    name = "weight-rescaling"
    title = "weight rescaling"
    tuning = (*along("every", 100, 10, 1), {"every": 1, "multiplier": 1.5}, {"every": 1, "multiplier": 2.0})
    owns = frozenset({"the norms of the weights"})
    symbols: ClassVar[Mapping[str, str]] = {"every": "n", "multiplier": "c"}

    def __init__(
        self,
        model: nn.Module,
        example_inputs: Any = None,
        *,
        every: float = 1,
        multiplier: float = 1.0,
        per: Per = "layer",
        centred: bool = True,
        seed: int = 0,
    ) -> None:
        super().__init__(model, example_inputs, every=every, seed=seed)
        self.multiplier = positive(multiplier, "multiplier c")
        choice(per, "per", get_args(Per))
        self.per, self.centred = per, centred
        self._layers = affine_layers(model)
        first = 0 if per == "layer" else 2
        self._dims = [tuple(range(first, layer.blocks().ndim)) for layer in self._layers]
        self._deviations = {
            layer.name: wide(layer.blocks().detach()).var(dim, correction=0, keepdim=True).sqrt()
            for layer, dim in zip(self._layers, self._dims, strict=True)
        }

    @torch.no_grad()
    def act(self) -> None:
        """Rescale once."""
        if not self._layers:
            return
        targets = torch._foreach_mul(list(self._deviations.values()), self.multiplier)
        rescale_deviations([layer.blocks() for layer in self._layers], targets, self._dims, centred=self.centred)

    def state(self) -> dict[str, Any]:
        """What has to be saved."""
        return {**super().state(), "deviations": dict(self._deviations)}

    def load_state(self, state: dict[str, Any]) -> None:
        """The reverse of :meth:`state`."""
        restore(self._deviations, state["deviations"])
        super().load_state(state)
