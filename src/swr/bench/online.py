"""How well a network learns while it learns: the loss or accuracy of every batch before its update, task by task."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from swr.bench import streams

if TYPE_CHECKING:
    from swr.bench.training import Epoch

SHORT = {streams.TEST: "test", streams.ACCURACY: "online", streams.ERROR: "error"}


def final(scenario: str, epoch: Epoch) -> float:
    """What a run is judged by that ends with this epoch: its test accuracy, or an average over the stream."""
    metric = streams.metric(scenario)
    return epoch.test_accuracy if metric == streams.TEST else epoch.measures.get(metric, math.nan)


def present(scenario: str, epoch: Epoch) -> float | None:
    """The same of this epoch alone; None if it does not count."""
    metric = streams.metric(scenario)
    if metric == streams.TEST:
        return epoch.test_accuracy
    if not streams.counts(scenario, epoch.stage):
        return None
    return epoch.train_loss if metric == streams.ERROR else epoch.train_accuracy


def in_words(scenario: str, epoch: Epoch, *, short: bool = False) -> str:
    """What a run is judged by up to this epoch: ``test accuracy 0.9712``, or ``test 0.9712``."""
    metric = streams.metric(scenario)
    return f"{SHORT[metric] if short else metric} {final(scenario, epoch):.4f}"


class Online:
    """Averages of a stream's metric, task by task; the stream itself is not kept.

    >>> online = Online("permuted-pixels", tasks=20)
    >>> for task in range(20):
    ...     online.add(task, 0.9 if task < 2 else 0.5)
    >>> online.measures()["average online accuracy"]
    0.54
    >>> online.measures()["first tenth of tasks"], online.measures()["last tenth of tasks"]
    (0.9, 0.5)

    tasks: of the whole run.
    """

    def __init__(self, stream: str, tasks: int) -> None:
        self.metric = streams.metric(stream)
        self.tasks = [task for task in range(tasks) if streams.counts(stream, task)]
        self.sums = [0.0] * tasks
        self.epochs = [0] * tasks

    def add(self, task: int, value: float) -> None:
        """One epoch: its mean over the batches as they were met."""
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
            found |= {streams.FIRST: self._mean(begun[:tenth]), streams.LAST: self._mean(begun[-tenth:])}
        return found

    def state_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {"sums": list(self.sums), "epochs": list(self.epochs)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""
        self.sums, self.epochs = list(state["sums"]), list(state["epochs"])

    def _mean(self, tasks: list[int]) -> float:
        return sum(self.sums[task] / self.epochs[task] for task in tasks) / len(tasks)
