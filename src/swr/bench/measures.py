"""What an experiment measures at the end of every epoch, besides accuracies and norms."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from swr.bench.columns import Column
from swr.diagnostics import balancedness
from swr.errors import OptionError

ORDERS = ((1, 1), (2, 2), (1, 2), (2, 1))
"""(p, q) of the l_{p,q} norms; the paper shows one pair and does not say which"""


def over_minimum(model: nn.Module) -> dict[str, float]:
    """‖W‖_{p,q} over its minimum among networks with the same function, for each pair of orders.

    >>> list(over_minimum(nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2))))
    ['l1,1 over minimum', 'l2,2 over minimum', 'l1,2 over minimum', 'l2,1 over minimum']
    """
    return {f"l{p},{q} over minimum": balancedness(model, p, q) for p, q in ORDERS}


MEASURES: dict[str, Callable[[nn.Module], dict[str, float]]] = {"balancedness": over_minimum}
"""by experiment; most have none"""


def measure(experiment: str, model: nn.Module) -> dict[str, float]:
    """Everything that the experiment measures on a network."""
    return MEASURES[experiment](model) if experiment in MEASURES else {}


def check(experiment: str, column: Column) -> None:
    """Whether the experiment fits the column: its measures are defined on the network, bits are what is flipped."""
    if (experiment == "bit-flipping") != (column.dataset == "bits"):
        raise OptionError(f"bit-flipping and the column bits-mlp5 belong together, found {experiment} on {column.name}.")
    if experiment in MEASURES and column.split:
        raise OptionError(
            f"{experiment} rescales single units, which normalisation layers do not let through, and {column.name} has some: "
            f"use {column.dataset}-mlp or {column.dataset}-cnn."
        )
