"""Whether the epochs of a run can be what the loop recorded: none is missing, and every number is in its range.

Not-a-number is a result in two cases only. Some accuracies do not exist: that of a regression, and that of a stage without test
examples. And the losses, norms and measures of a network that diverged are not finite: its loss *and* its norms, since the
gradients of such a loss go into the weights.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from swr.bench.experiments import AT_START, FIRST, LAST, RunConfig
from swr.bench.store.schema import Status
from swr.bench.training import Epoch
from swr.bench.words import plural
from swr.errors import SWRError


class ExchangeError(SWRError):
    """Results cannot be exported, or what is to be imported is damaged."""


@dataclass(frozen=True)
class Found:
    """An epoch that is to be imported."""

    run: str
    epoch: Epoch
    where: str
    """the file and line of it"""
    lines: Mapping[str, str] = field(default_factory=dict)
    """the same of norms and measures, where they have lines of their own"""

    def refuse(self, name: str, value: object, wanted: str) -> ExchangeError:
        """The error for one of its numbers."""
        of = f"epoch {self.epoch.epoch} of run {self.run}"
        return ExchangeError(f"{self.lines.get(name, self.where)}: {name} in {of} is {value}, it must be {wanted}: {REMEDY}")


REMEDY = "export again from an undamaged store, or without the run (`swr remove`)"


LAST_ALONE = {"epochs": "last"}
"""in a run's facts: the others were left out on purpose"""


def check_epochs(where: str, config: RunConfig, status: Status, found: Sequence[Found], facts: Mapping[str, Any]) -> None:
    """Raise an ExchangeError, with the file and line, unless these can be the epochs of a run.

    Args:
        where: The file and line of the run.
        config: Its configuration.
        status: A finished run must have all of its epochs, another one those up to any.
        found: The epochs in order.
        facts: Of the run; they may say that only its last epoch was kept.
    """
    stages = [stage for stage, epochs in enumerate(config.epochs[-1:] if config.cold else config.epochs) for _ in range(epochs)]
    if LAST_ALONE.items() <= facts.items() and [one.epoch.epoch for one in found] == [config.total]:
        stages = stages[-1:]
    else:
        _check_numbers(where, config, status, found)
    diverged = _diverged([one.epoch for one in found])
    for one, stage, lost in zip(found, stages, diverged, strict=False):
        epoch = one.epoch
        if epoch.total != config.total:
            raise one.refuse("total", epoch.total, f"{config.total}, as in its configuration")
        if epoch.stage != stage:
            raise one.refuse("stage", epoch.stage, f"{stage}, as in its configuration")
        _check_accuracies(config, one)
        _check_finite(one, "train_loss", epoch.train_loss, lost=lost)
        _check_finite(one, "seconds", epoch.seconds)
        for name, value in epoch.norms.items():
            _check_finite(one, name, value, lost=lost)
        if other := sorted(epoch.norms.keys() ^ found[0].epoch.norms.keys()):
            found_here = "there" if other[0] in epoch.norms else "missing"
            raise one.refuse(f"the norm of {other[0]}", found_here, "in every epoch of the run, or in none")
    _check_measures(config, found, diverged)


def _check_numbers(where: str, config: RunConfig, status: Status, found: Sequence[Found]) -> None:
    """The epochs are 1, 2, 3, … to the last, if the run is finished."""
    missing = next((n for n, one in enumerate(found, 1) if one.epoch.epoch != n), len(found) + 1)
    if missing <= len(found) or (status == "done" and len(found) < config.total):
        raise ExchangeError(
            f"{where}: run {config.identity} is {status}, but holds {len(found)} of its {plural(config.total, 'epoch')}, "
            f"epoch {missing} is missing: {REMEDY}"
        )
    if len(found) > config.total:
        raise found[config.total].refuse(
            "epoch", found[config.total].epoch.epoch, f"at most {config.total}, the last of the run"
        )


def _check_accuracies(config: RunConfig, one: Found) -> None:
    epoch, scenario = one.epoch, config.setting
    if (epoch.validation_accuracy is None) != (config.validation == 0):
        wanted = "empty, since nothing was held out" if config.validation == 0 else "from 0 to 1"
        raise one.refuse("validation_accuracy", epoch.validation_accuracy, wanted)
    for name, may_lack in (
        ("train_accuracy", scenario.regression),
        ("test_accuracy", not scenario.always_tests),
        ("validation_accuracy", epoch.validation_accuracy is None),
    ):
        value = getattr(epoch, name)
        if not (may_lack and (value is None or math.isnan(value))) and not 0 <= value <= 1:
            raise one.refuse(name, value, "from 0 to 1")


def _check_measures(config: RunConfig, found: Sequence[Found], diverged: Sequence[bool]) -> None:
    metric, begun, lost = config.setting.metric, False, False
    shares = (AT_START,) if metric.lower else (AT_START, FIRST, LAST, metric.name)
    for one, now in zip(found, diverged, strict=True):
        begun, lost = begun or config.setting.counts(one.epoch.stage), lost or now  # averages never recover
        if metric.online and begun and metric.name not in one.epoch.measures:
            raise one.refuse(metric.name, "missing", "there, since the run is judged by it")
        for name, value in one.epoch.measures.items():
            if name in shares and not 0 <= value <= 1:
                raise one.refuse(name, value, "from 0 to 1")
            if not lost and not math.isfinite(value):
                raise one.refuse(name, value, "a finite number")


def _check_finite(one: Found, name: str, value: float, *, lost: bool = False) -> None:
    """A finite number, 0 or larger; any in a network that diverged."""
    if not lost and not 0 <= value < math.inf:
        raise one.refuse(name, value, "a finite number, 0 or larger")


def _diverged(epochs: Sequence[Epoch]) -> list[bool]:
    """Whether the network diverged, epoch by epoch; where the last batch did it, only the next epoch's loss shows it."""
    broken = [not all(map(math.isfinite, epoch.norms.values())) for epoch in epochs]
    both = [bad and not math.isfinite(epoch.train_loss) for bad, epoch in zip(broken, epochs, strict=True)]
    return [now or (bad and later) for now, bad, later in zip(both, broken, [*both[1:], False], strict=False)]
