"""The leaderboard as data: the places where methods are compared, and the rows.

The seeds are those of nothing else, so that no default and no other choice was made with them in view.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from swr import methods
from swr.bench.experiments.config import RunConfig
from swr.bench.experiments.paper import find_experiment
from swr.bench.experiments.study import Point, Setting
from swr.errors import OptionError
from swr.methods import UnknownName
from swr.methods.tools.tuning import Tuning, along
from swr.rescaling.aim import DEFAULT_GROWTH

VANILLA = "vanilla"
TUNING = (150,)
REPORTED = tuple(range(300, 305))


def _digits(name: str, title: str) -> Setting:
    return Setting(name, title, name, "digits-mlp", tuning=TUNING, reported=REPORTED)


def _mnist(name: str, title: str, experiment: str, scale: float) -> Setting:
    return Setting(name, title, experiment, "mnist-mlp", scale, 6000, tuning=TUNING, reported=REPORTED)


DIGITS = (
    _digits("permuted-pixels", "permuted pixels"),
    _digits("random-labels", "random labels"),
    _digits("label-permutation", "label permutation"),
)
PLACES: dict[str, Setting] = {
    one.name: one
    for one in (
        *DIGITS,
        _mnist("warm-start", "warm start", "warm-start", 0.5),
        _mnist("limited", "limited access", "continual-limited", 0.2),
    )
}
"""in the order in which they are run: streams on digits, then MNIST's first 6,000 images"""

FIRST = ("l2-init", "l2", "swr-budget", "swr", "shrink-perturb", "head-reset", "redo", "continual-backprop")
"""the rows that are run first; the others follow in the order of the registry"""

NOT_IN_STREAMS = ("ema",)
"""they change which weights are evaluated and not how they are trained, so that online accuracies stay the same"""

LEFT_OUT = {
    "swr-reinit": "acts when the learning rate falls, which it does nowhere here: its runs would be those of swr",
    "full-reset": "is the fresh network that the others are measured against",
}
"""registered methods without a row, and why"""


def _with_budget(option: str, *values: float) -> Tuning:
    return tuple({"swr-budget.growth": DEFAULT_GROWTH, **one} for one in along(option, *values))


COMPOSITIONS: dict[str, Tuning] = {
    "swr-budget+l2-init": _with_budget("l2-init.coefficient", 1e-5, 1e-4, 1e-3, 1e-2, 1e-1),
    "swr-budget+shrink-perturb": _with_budget("shrink-perturb.coefficient", 0.1, 0.2, 0.4, 0.6, 0.8),
    "swr-budget+redo": _with_budget("redo.threshold", 0.0, 0.01, 0.025, 0.05, 0.1),
    "swr-budget+head-reset": along("swr-budget.growth", 1.0, 1.2, 1.5, 2.0, 3.0),
    "swr-budget+ema": _with_budget("ema.momentum", 0.9, 0.99, 0.998, 0.999, 0.9999),
}
"""several methods at once; the budget stays at its default where the other one has something to tune"""


@dataclass(frozen=True)
class Row:
    """A method of the board."""

    method: str
    """a registered name, or several with ``+`` between them"""
    points: tuple[Point, ...]
    """the configurations that are tried; of a single one there is nothing to choose"""
    untuned: bool = False
    """as it comes, beside a row of the same method that is tuned"""

    @property
    def name(self) -> str:
        """One word for it."""
        return f"{self.method}-untuned" if self.untuned else self.method

    @property
    def title(self) -> str:
        """As tables write it."""
        title, _ = methods.describe(self.method)
        return f"{title} {self.points[0][0][1]:g}, untuned" if self.untuned else title

    def runs_in(self, place: Setting) -> bool:
        """Whether it can differ from training without it."""
        online = find_experiment(place.experiment).scenario.metric.online
        return not (online and set(methods.parts(self.method)) & set(NOT_IN_STREAMS))

    def grid(self, place: Setting) -> list[RunConfig]:
        """The runs on the tuning seeds; none if there is nothing to choose."""
        return place.grid(self.method, self.points) if len(self.points) > 1 else []

    def reported(self, place: Setting, point: Point) -> list[RunConfig]:
        """The chosen configuration on the reported seeds."""
        return [place.config(self.method, point, seed) for seed in place.reported]


def rows(names: Iterable[str] | None = None) -> list[Row]:
    """The rows of the board in the order in which they are run.

    >>> [row.name for row in rows(["swr-budget", "fire"])]
    ['swr-budget-untuned', 'swr-budget', 'fire']

    Args:
        names: Of methods; all by default.
    """
    order = [*FIRST, *COMPOSITIONS, *methods.names()]
    known = [name for name in dict.fromkeys(order) if name != VANILLA and name not in LEFT_OUT]
    chosen = known if names is None else list(names)
    for name in chosen:
        if name in (VANILLA, *LEFT_OUT):
            reason = LEFT_OUT.get(name, "is what the others are measured against")
            raise OptionError(f"{name} has no row of its own: it {reason}.")
        if name not in known:
            raise UnknownName("row of the leaderboard", name, known)
    found = [Row(name, _points(COMPOSITIONS.get(name) or methods.find(name).tuning)) for name in known if name in chosen]
    untuned = Row("swr-budget", ((("growth", DEFAULT_GROWTH),),), untuned=True)
    return [untuned, *found] if "swr-budget" in chosen else found


def places(names: Sequence[str] | None = None, seeds: int | Sequence[int] | None = None, scale: float = 1.0) -> list[Setting]:
    """The places of the board in their order.

    >>> [place.name for place in places()]
    ['permuted-pixels', 'random-labels', 'label-permutation']

    Args:
        names: By default the streams on digits.
        seeds: How many of the reported seeds, or which.
        scale: Multiplies the number of epochs, or of tasks.
    """
    chosen = [one.name for one in DIGITS] if names is None else list(names)
    for name in chosen:
        if name not in PLACES:
            raise UnknownName("stream of the leaderboard", name, PLACES)
    if isinstance(seeds, int):
        if seeds < 1:
            raise OptionError(f"the number of seeds must be at least 1, found {seeds}.")
        seeds = tuple(range(REPORTED[0], REPORTED[0] + seeds))
    reported = REPORTED if seeds is None else tuple(seeds)
    if shared := sorted(set(reported) & set(TUNING)):
        raise OptionError(f"seed {shared[0]} is one that hyper-parameters are chosen on: report others.")
    return [replace(one, reported=reported, scale=scale * one.scale) for one in PLACES.values() if one.name in chosen]


def fresh(place: Setting) -> str:
    """The line of the network that has lost nothing: new for every task, or trained on the last data alone."""
    found = find_experiment(place.experiment).scenario.reference
    assert found is not None
    return found


def references(place: Setting, *, tune: bool = False) -> dict[str, list[RunConfig]]:
    """The two lines that scores are measured with, by name, on the reported seeds, or on the tuning seeds."""
    seeds = place.tuning if tune else place.reported
    return {line: [place.config(line, (), seed, tune=tune) for seed in seeds] for line in (VANILLA, fresh(place))}


def _points(tuning: Tuning) -> tuple[Point, ...]:
    return tuple(tuple(sorted((key, float(value)) for key, value in one.items())) for one in tuning)
