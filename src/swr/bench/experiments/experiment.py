"""What an experiment is: the runs that ``swr run NAME`` makes, and the text that explains them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from torch import nn

from swr.bench.experiments.column import Column, Hyper
from swr.bench.experiments.published import FIVE
from swr.bench.experiments.scenario import Scenario
from swr.errors import OptionError

LRSchedule = Literal["step", "cosine", "warmup-cosine", "one-cycle", "restarts"]
"""how the learning rate changes in a run: ``training/schedule.py`` has the formulas"""


class Experiment:
    """What the runs of an experiment have in common."""

    name: str
    about: str
    """one phrase, for help texts and tables"""
    scenario: Scenario
    methods: tuple[str, ...]
    """the rows of its table or figure, reference lines first"""
    columns: tuple[str, ...]
    """what it is run on by default"""
    seeds: int | None = None
    """None: the column's own"""
    title: str = ""
    """a heading; by default made of the name"""
    hyper: Mapping[str, Mapping[str, Hyper]] = {}
    """hyper-parameters of our own by column and method"""
    nearest: tuple[str, ...] = ()
    """experiments of the paper whose hyper-parameters are used where this one has none"""

    def schedule(self, column: Column, scale: float = 1.0) -> dict[str, Any]:
        """The fields of a configuration that the experiment fixes on a column: epochs, batch size, learning rate, ….

        Args:
            scale: Multiplies the number of epochs of each stage, or the number of tasks.
        """
        raise NotImplementedError

    def fits(self, column: Column) -> None:
        """Raise an OptionError if the experiment cannot be run on a column."""
        if (column.made_for is not None or self.scenario.generates) and column.made_for != self.scenario.name:
            made = column.made_for or self.scenario.name
            raise OptionError(f"{made} and the columns made for it belong together, found {self.name} on {column.name}.")

    def measure(self, model: nn.Module) -> dict[str, float]:
        """What is measured on the network after every epoch, in addition to accuracies and norms."""
        return {}


@dataclass(frozen=True)
class Staged(Experiment):
    """An experiment of a few long stages; by default on the paper's five columns."""

    name: str
    about: str
    scenario: Scenario
    epochs: tuple[int, ...]
    """of each stage"""
    methods: tuple[str, ...]
    columns: tuple[str, ...] = tuple(column.name for column in FIVE)
    title: str = ""
    lr_drops: tuple[int, ...] = ()
    """epochs, counted from 1, at whose start the learning rate falls to a tenth"""
    lr_schedule: LRSchedule = "step"
    label_noise: float = 0.0
    seeds: int | None = None
    hyper: Mapping[str, Mapping[str, Hyper]] = field(default_factory=dict)
    nearest: tuple[str, ...] = ()

    def schedule(self, column: Column, scale: float = 1.0) -> dict[str, Any]:
        """At least one epoch in each stage."""
        return {
            "scenario": self.scenario.name,
            "epochs": tuple(max(1, round(n * scale)) for n in self.epochs),
            "batch_size": column.batch_size,
            "clip": column.clip,
            "lr_drops": tuple(max(2, round(n * scale)) for n in self.lr_drops),
            "lr_schedule": self.lr_schedule,
            "label_noise": self.label_noise,
        }


def heading(name: str) -> str:
    """A name as a heading.

    >>> heading("random-labels")
    'Random labels'
    """
    return name.replace("-", " ").capitalize()
