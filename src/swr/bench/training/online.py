"""How well a network learns while it learns: the loss or accuracy of every batch before its update, task by task."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from swr.bench.experiments import FIRST, LAST, RunConfig, Scenario
from swr.bench.training.epoch import Epoch


def final(config: RunConfig, epoch: Epoch) -> float:
    """What a run is judged by that ends with this epoch: its test accuracy, or an average over the stream."""
    metric = config.setting.metric
    return epoch.measures.get(metric.name, math.nan) if metric.online else float(getattr(epoch, metric.field))


def present(config: RunConfig, epoch: Epoch) -> float | None:
    """The same of this epoch alone; None if its stage does not count."""
    scenario = config.setting
    return float(getattr(epoch, scenario.metric.field)) if scenario.counts(epoch.stage) else None


def in_words(config: RunConfig, epoch: Epoch, *, short: bool = False) -> str:
    """What a run is judged by up to this epoch: ``test accuracy 0.9712``, or ``test 0.9712``."""
    metric = config.setting.metric
    return f"{metric.short if short else metric.name} {final(config, epoch):.4f}"


class Online:
    """Averages of a stream's metric, task by task; the stream itself is not kept.

    >>> from swr.bench.experiments import find_scenario
    >>> online = Online(find_scenario("permuted-pixels"), tasks=20)
    >>> for task in range(20):
    ...     online.add(task, 0.9 if task < 2 else 0.5)
    >>> online.measures()["average online accuracy"]
    0.54
    >>> online.measures()["first tenth of tasks"], online.measures()["last tenth of tasks"]
    (0.9, 0.5)

    Args:
        scenario: The stream.
        tasks: Of the whole run.
    """

    def __init__(self, scenario: Scenario, tasks: int) -> None:
        self.metric = scenario.metric.name
        self.tasks = [task for task in range(tasks) if scenario.counts(task)]
        self.sums = [0.0] * tasks
        self.epochs = [0] * tasks

    def add(self, task: int, value: float) -> None:
        """One epoch: its mean over the batches, each before its update."""
        self.sums[task] += value
        self.epochs[task] += 1

    def measures(self) -> dict[str, float]:
        """The average over all tasks so far; with the first epoch of the last task, over its first and last tenth too."""
        begun = [task for task in self.tasks if self.epochs[task]]
        if not begun:
            return {}
        found = {self.metric: self._mean(begun)}
        if begun == self.tasks:
            tenth = max(1, len(self.tasks) // 10)
            found |= {FIRST: self._mean(begun[:tenth]), LAST: self._mean(begun[-tenth:])}
        return found

    def state_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {"sums": list(self.sums), "epochs": list(self.epochs)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from there."""
        self.sums, self.epochs = list(state["sums"]), list(state["epochs"])

    def _mean(self, tasks: list[int]) -> float:
        return sum(self.sums[task] / self.epochs[task] for task in tasks) / len(tasks)
