"""How long runs will take, from the epochs that were measured.

An epoch costs in proportion to the data it trains on, plus the evaluation: unit(stage) = share of the data + EVALUATION.
Seconds per unit are averaged per column and method; a method that was not measured yet uses its column's average, and without
any measurement there is no estimate.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor

from swr.bench.data import Dataset
from swr.bench.experiments import RunConfig
from swr.bench.training import Epoch, Training
from swr.bench.training.process import flushed_denormals, keep_memory
from swr.errors import OptionError

EVALUATION = 0.06  # 10,000 test images, forward only, against 60,000 forward and backward
ENOUGH = 0.25  # seconds to time something for

Timing = tuple[RunConfig, int, int, float]
"""A configuration, a stage, how many epochs of it were measured, and their mean seconds."""


class Estimator:
    """Seconds per unit of work, learned as epochs come in.

    >>> Estimator().remaining([], workers=2)
    0.0

    Args:
        history: What was measured before.
    """

    def __init__(self, history: Iterable[Timing] = ()) -> None:
        self._seconds: dict[tuple[object, ...], float] = defaultdict(float)
        self._units: dict[tuple[object, ...], float] = defaultdict(float)
        self._starts: list[float] = []
        self._spared: dict[str, int] = {}
        self._known_units: dict[tuple[str, bool], tuple[int, float]] = {}
        """by run, whole or what is left of it: the epochs behind it, and the units after them"""
        for config, stage, epochs, seconds in history:
            self._add(config, epochs * unit(config, stage), epochs * seconds)

    def measured(self, config: RunConfig, epoch: Epoch) -> None:
        """Learn from an epoch, unless another run trained it."""
        if epoch.seconds:
            self._add(config, unit(config, epoch.stage), epoch.seconds)

    def spare(self, configs: Iterable[RunConfig]) -> None:
        """These runs will take over their first stage from another."""
        self._spared = {config.identity: config.epochs[0] for config in configs}

    def started(self, seconds: float) -> None:
        """Learn how long a run takes to get to its first epoch."""
        self._starts.append(seconds)

    def calibrate(self, config: RunConfig, dataset: Dataset, device: str) -> None:
        """Learn from parts of an epoch that are trained and evaluated now and discarded, a few batches of each."""
        if config.setting.interactive:
            raise OptionError("an agent is timed in its first run.")
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        keep_memory()  # as the processes that train do
        try:
            with flushed_denormals(), torch.random.fork_rng(devices=[]):
                training = Training(config, dataset, device)
                stages = training.material.stages
                training.show(len(stages) - 1)
                task, train = training.task, stages[-1].indices
                test = torch.arange(len(training.test), device=device) if task.tested is None else task.tested
                training.pass_over(train[:4])  # the first pass also allocates what later ones use
                seconds = timed(lambda part: training.pass_over(part)[0].item(), train, config.batch_size)
                seconds += timed(lambda part: training.accuracy(training.test, task.test, part).item(), test, config.batch_size)
        finally:
            torch.set_num_threads(threads)
        self._add(config, unit(config, len(config.epochs) - 1), seconds)

    def rate(self, config: RunConfig) -> float | None:
        """Seconds per unit of work for a run like this one."""
        for key in _keys(config):
            if self._units.get(key):
                return self._seconds[key] / self._units[key]
        return None

    def whole(self, config: RunConfig) -> float:
        """The work of a whole run: seconds where that is known, else units."""
        return self._units_after(config, self._spared.get(config.identity, 0), whole=True) * (self.rate(config) or 1.0)

    def work(self, runs: Sequence[tuple[RunConfig, Epoch | None]]) -> float:
        """The work that is left of these runs, measured as in :meth:`whole`."""
        return sum(self._left(config, last) * (self.rate(config) or 1.0) for config, last in runs)

    def remaining(self, runs: Sequence[tuple[RunConfig, Epoch | None]], workers: int) -> float | None:
        """Seconds until these runs are done, or None if a column among them was never measured.

        No schedule ends before all the work is divided evenly, nor before its longest run does.
        """
        rates = [self.rate(config) for config, _ in runs]
        if None in rates:
            return None
        start = sum(self._starts) / len(self._starts) if self._starts else 0.0
        each = [
            self._left(config, last) * (rate or 0.0) + (0.0 if last else start)
            for (config, last), rate in zip(runs, rates, strict=True)
        ]
        return max(sum(each) / max(1, min(workers, len(each))), max(each)) if each else 0.0

    def _left(self, config: RunConfig, last: Epoch | None) -> float:
        """The units of work that are left of a run."""
        past = max(last.epoch if last else 0, self._spared.get(config.identity, 0))
        return self._units_after(config, past, whole=False)

    def _units_after(self, config: RunConfig, past: int, *, whole: bool) -> float:
        """The cost of a run's epochs after the first ``past``, computed again only when these are more."""
        key = config.identity, whole
        known = self._known_units.get(key)
        if known is None or known[0] != past:
            known = self._known_units[key] = past, _units(config, past)
        return known[1]

    def _add(self, config: RunConfig, units: float, seconds: float) -> None:
        for key in _keys(config):
            self._units[key] += units
            self._seconds[key] += seconds


def timed(work: Callable[[Tensor], object], examples: Tensor, batch: int) -> float:
    """Seconds that the work on all examples takes, from a part of them: whole batches, since a small one costs more an example.

    Args:
        batch: How many examples are taken first; twice as many until they take a quarter of a second.
    """
    count, seconds = min(batch, len(examples)), 0.0
    while count:
        begin = time.perf_counter()
        work(examples[:count])
        seconds = time.perf_counter() - begin
        if seconds >= ENOUGH or count == len(examples):
            return seconds * len(examples) / count
        count = min(2 * count, len(examples))
    return seconds


def unit(config: RunConfig, stage: int) -> float:
    """The cost of an epoch of a stage, in passes over all the training data."""
    return config.setting.share(config, stage) + EVALUATION


def _keys(config: RunConfig) -> tuple[tuple[object, ...], ...]:
    """What runs of equal cost have in common, the closest first."""
    place = (config.column, config.batch_size, config.examples, config.precision)
    return (*place, config.method), place


def _units(config: RunConfig, past: int) -> float:
    """The cost of a run's epochs after the first ``past``."""
    total = 0.0
    for stage, epochs in enumerate(config.epochs[-1:] if config.cold else config.epochs):
        total += max(0, epochs - max(0, past)) * unit(config, stage)
        past -= epochs
    return total
