"""The experiment `balancedness`: norms of the network over their minimum among networks of the same function."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from swr.bench.experiments.chunks import SINGLE
from swr.bench.experiments.column import Column
from swr.bench.experiments.experiment import Staged
from swr.bench.experiments.published import TUNED
from swr.diagnostics import balancedness
from swr.errors import OptionError

ORDERS = ((1, 1), (2, 2), (1, 2), (2, 1))
"""(p, q) of the l_{p,q} norms; the paper shows one pair and does not say which"""


@dataclass(frozen=True)
class Balancedness(Staged):
    """Defined on networks without normalisation layers."""

    def fits(self, column: Column) -> None:
        """Not on networks with normalisation layers."""
        super().fits(column)
        if column.normalised:
            raise OptionError(
                f"{self.name} rescales single units, which normalisation layers do not let through, and {column.name} has "
                f"some: use {column.dataset}-mlp or {column.dataset}-cnn."
            )

    def measure(self, model: nn.Module) -> dict[str, float]:
        """All four norms."""
        return over_minimum(model)


def over_minimum(model: nn.Module) -> dict[str, float]:
    """‖W‖_{p,q} over its minimum among networks with the same function, for each pair of orders.

    >>> list(over_minimum(nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2))))
    ['l1,1 over minimum', 'l2,2 over minimum', 'l1,2 over minimum', 'l2,1 over minimum']
    """
    return {f"l{p},{q} over minimum": balancedness(model, p, q) for p, q in ORDERS}


BALANCEDNESS = Balancedness(
    "balancedness",
    "l_p,q norms over their minimum among networks of the same function, over 200 epochs",
    SINGLE,
    epochs=(200,),
    methods=("vanilla", "swr"),
    columns=("cifar10-mlp",),
    nearest=TUNED[:2],
)
