"""The paper's protocol as code: from the name of an experiment to its runs.

Epochs are counted from 1, so the learning rate of `lr-decay` falls before the 100th and the 150th epoch are trained: 99 epochs
at 1e-3, 50 at 1e-4, 51 at 1e-5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

from swr import methods as registry
from swr.bench import streams
from swr.bench.columns import COLUMNS, PAPER, Column, columns, find
from swr.bench.config import RunConfig
from swr.bench.measures import check
from swr.bench.streams import STREAMS, Stream
from swr.bench.tables import DEFAULTS, GRIDS, HYPER, PUBLISHED, RATIOS, Hyper, Published
from swr.errors import OptionError
from swr.methods import UnknownName

COLD = "cold"
"""the name of the reference line: vanilla from scratch on all data"""

VALIDATION = 0.1
"""part of the training data that a sweep holds out"""


@dataclass(frozen=True)
class Protocol:
    """What the runs of an experiment have in common."""

    about: str
    scenario: str
    epochs: tuple[int, ...]
    methods: tuple[str, ...]
    """the rows of its table or figure, reference lines first"""
    columns: tuple[str, ...] = tuple(PAPER)
    lr_drops: tuple[int, ...] = ()
    label_noise: float = 0.0
    seeds: int | None = None
    """None: the column's own"""
    metric: str = streams.TEST
    """what its runs are judged by, a name of :mod:`swr.bench.streams`"""


def _of_stream(name: str, stream: Stream) -> Protocol:
    """A stream as an experiment, on the first of its columns."""
    column = next(iter(stream.sizes))
    epochs = streams.epochs(stream.sizes[column])
    return Protocol(stream.about, name, epochs, streams.METHODS, (column,), metric=stream.metric)


_RESETS = ("vanilla", "l2", "l2-init", "shrink-perturb", "head-reset", "swr")
_SCALINGS = ("naive-scaling", "proportional-scaling")

EXPERIMENTS: dict[str, Protocol] = {
    "warm-start": Protocol("100 epochs on half of the data, then 100 on all of it", "warm-start", (100, 100), (COLD, *_RESETS)),
    "continual-full": Protocol("10 chunks that accumulate, 100 epochs a stage", "continual-full", (100,) * 10, _RESETS),
    "continual-limited": Protocol("10 chunks, each seen for 100 epochs only", "continual-limited", (100,) * 10, _RESETS),
    "generalization": Protocol("200 epochs on all data", "single", (200,), ("vanilla", "l2", "l2-init", "swr")),
    "lr-decay": Protocol(
        "the same, the learning rate falls to a tenth at epochs 100 and 150",
        "single",
        (200,),
        ("vanilla", "l2", "l2-init", "swr", "swr-reinit"),
        lr_drops=(100, 150),
    ),
    "proportionality": Protocol(
        "100 epochs, then all weights scaled by a ratio, naively or proportionally, then 50 more",
        "continued",
        (100, 50),
        ("vanilla", *_SCALINGS),
        ("cifar10-cnn",),
    ),
    "balancedness": Protocol(
        "l_p,q norms over their minimum among networks of the same function, over 200 epochs",
        "single",
        (200,),
        ("vanilla", "swr"),
        ("cifar10-mlp",),
    ),
    "quickstart": Protocol(
        "warm start on digits with 30 % noisy labels, about a minute",
        "warm-start",
        (60, 60),
        (COLD, "vanilla", "l2", "shrink-perturb", "swr"),
        ("digits-mlp",),
        label_noise=0.3,
        seeds=3,
    ),
    **{name: _of_stream(name, stream) for name, stream in STREAMS.items()},
}


def experiments() -> tuple[str, ...]:
    """The names of the experiments."""
    return tuple(EXPERIMENTS)


def protocol(experiment: str) -> Protocol:
    """What the experiment of that name does."""
    if experiment not in EXPERIMENTS:
        raise UnknownName("experiment", experiment, EXPERIMENTS)
    return EXPERIMENTS[experiment]


def expand(
    experiment: str,
    *,
    columns: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    seeds: int | Sequence[int] | None = None,
    epochs_scale: float = 1.0,
    hyper: Hyper | None = None,
    inputs: str = "normalised",
) -> list[RunConfig]:
    """The runs of an experiment, with the paper's best hyper-parameters; seed by seed, so that early results cover all methods.

    >>> len(expand("generalization", columns=["mnist-mlp"]))
    20

    experiment: one of :func:`experiments`.
    columns: names of columns; by default those of the paper's table or figure (``quickstart``: digits).
    methods: names of methods, or ``cold`` for the reference from scratch; by default those of the paper, references included.
        A ``MODULE:CLASS`` is not imported here, since a report asks for the runs that a file of results names.
    seeds: how many, 0 … n-1, or which; by default 5, for VGG-16 3.
    epochs_scale: multiplies every number of epochs, at least 1 is left; of a stream of one pass a task, the number of tasks.
    hyper: hyper-parameters of the one method that is named, in place of the paper's best.
    inputs: "raw" leaves the images as they are, from 0 to 1.
    """
    plan = protocol(experiment)
    chosen = [find(name) for name in _unique(plan.columns if columns is None else columns, "column")]
    lines = _unique(plan.methods if methods is None else methods, "method")
    for line in lines:
        _check_line(line, experiment)
    if hyper is not None:
        _check_hyper(hyper, lines)
    runs = []
    for column in chosen:
        for seed in _seeds(seeds, plan.seeds or column.seeds):
            for line in lines:
                method = "vanilla" if line == COLD else line
                for one in settings(experiment, column.name, method) if hyper is None else [hyper]:
                    config = _config(experiment, column, method, one, seed, epochs_scale, cold=line == COLD)
                    runs.append(replace(config, inputs=inputs))
    return runs


def sweep(
    experiment: str,
    column: str,
    method: str,
    *,
    seeds: int | Sequence[int] | None = None,
    epochs_scale: float = 1.0,
    select: str = "validation",
) -> list[RunConfig]:
    """The paper's grid for a method: λ, or λ_f x λ_c for SWR on networks with batch normalisation.

    >>> [config.hyper for config in sweep("warm-start", "mnist-mlp", "shrink-perturb", seeds=1)][0]
    (('coefficient', 0.2),)

    select: "validation" holds out a tenth of the training data to choose on; "test" trains on everything and chooses
        on the test set, as the paper does. A stream holds nothing out: its own metric decides.
    """
    if select not in ("validation", "test"):
        raise OptionError(f'select must be "validation" or "test", found {select!r}.')
    plan, place = protocol(experiment), find(column)
    validation = VALIDATION if select == "validation" and plan.scenario not in STREAMS else 0.0
    return [
        _config(experiment, place, method, hyper, seed, epochs_scale, validation=validation)
        for hyper in grid(place, method)
        for seed in _seeds(seeds, plan.seeds or place.seeds)
    ]


def grid(column: Column | str, method: str) -> list[Hyper]:
    """The hyper-parameters that the paper tried."""
    column = find(column) if isinstance(column, str) else column
    registry.find(method)
    if method not in GRIDS:
        swept = ", ".join(GRIDS)
        raise OptionError(f"{method} has no hyper-parameter to sweep; those that have are {swept}.")
    values = GRIDS[method]
    if method in ("swr", "swr-reinit") and column.split:
        return [{"features": f, "classifier": c} for f, c in product(values, values)]
    return [{"coefficient": value} for value in values]


def settings(experiment: str, column: str, method: str) -> list[Hyper]:
    """What an experiment runs a method with: its best hyper-parameters, or each ratio of a scaling.

    >>> settings("proportionality", "cifar10-cnn", "naive-scaling")[0]
    {'ratio': 0.9}
    """
    return [{"ratio": c} for c in RATIOS] if method in _SCALINGS else [best(experiment, column, method)]


def best(experiment: str, column: str, method: str) -> Hyper:
    """The paper's best hyper-parameters; where it has none, those of the nearest table, else a moderate value."""
    registry.describe(method)
    name = "swr" if method == "swr-reinit" else method
    for table in (experiment, *_NEAREST.get(experiment, ())):
        found = HYPER.get(table, {}).get(column, {}).get(name)
        if found is not None:
            return dict(found)
    if name not in GRIDS:
        return {}
    if name == "swr" and find(column).split:
        return {"features": DEFAULTS[name], "classifier": DEFAULTS[name]}
    return {"coefficient": DEFAULTS[name]}


def published(experiment: str, column: str, line: str) -> Published | None:
    """Mean and standard deviation of the final test accuracy in the paper's tables; None where it has a figure only."""
    return PUBLISHED.get(experiment, {}).get(line, {}).get(column)


_NEAREST = {
    "lr-decay": ("generalization", "warm-start"),
    "generalization": ("warm-start",),
    "balancedness": ("generalization", "warm-start"),
    "proportionality": ("generalization", "warm-start"),
    "quickstart": ("warm-start",),
}


def _config(
    experiment: str,
    column: Column,
    method: str,
    hyper: Hyper,
    seed: int,
    scale: float,
    *,
    cold: bool = False,
    validation: float = 0.0,
) -> RunConfig:
    if not 0 < scale < float("inf"):
        raise OptionError(f"epochs_scale must be positive, found {scale!r}.")
    plan = protocol(experiment)
    check(experiment, column)
    if plan.scenario in STREAMS:
        size = streams.size(experiment, column.name)
        return RunConfig(
            experiment=experiment,
            column=column.name,
            method=method,
            hyper=tuple(hyper.items()),
            seed=seed,
            scenario=plan.scenario,
            epochs=streams.epochs(size, scale),
            batch_size=size.batch_size,
            lr=size.lr,
            examples=size.examples,
        )
    return RunConfig(
        experiment=experiment,
        column=column.name,
        method=method,
        hyper=tuple(hyper.items()),
        seed=seed,
        scenario=plan.scenario,
        epochs=tuple(max(1, round(n * scale)) for n in plan.epochs),
        cold=cold,
        batch_size=column.batch_size,
        lr_drops=tuple(max(2, round(n * scale)) for n in plan.lr_drops),
        label_noise=plan.label_noise,
        validation=validation,
    )


def _check_line(line: str, experiment: str) -> None:
    known = (COLD, *registry.names())
    if line not in known:
        if ":" not in line:
            raise UnknownName("method", line, known, ", and MODULE:CLASS for one of your own")
        registry.describe(line)
    if line == COLD and protocol(experiment).scenario == "single":
        raise OptionError(f"{experiment} has one stage only, so that cold is the same as vanilla: leave it out.")
    if line == COLD and experiment in STREAMS:
        raise OptionError(f"{experiment} compares with a fresh network for every task: write full-reset in place of cold.")


def _check_hyper(hyper: Hyper, lines: Sequence[str]) -> None:
    if len(lines) != 1:
        raise OptionError(f"hyper-parameters belong to one method, and {len(lines)} would run: name it with --methods.")
    method = "vanilla" if lines[0] == COLD else lines[0]
    if method in registry.names():
        registry.check_options(method, hyper)


def _seeds(seeds: int | Sequence[int] | None, default: int) -> list[int]:
    if seeds is None:
        return list(range(default))
    if isinstance(seeds, int):
        if isinstance(seeds, bool) or seeds < 1:
            raise OptionError(f"the number of seeds must be at least 1, found {seeds}.")
        return list(range(seeds))
    if not seeds or any(seed < 0 for seed in seeds):
        raise OptionError(f"seeds must be whole numbers, at least 0, and at least one, found {list(seeds)}.")
    return list(dict.fromkeys(seeds))


def _unique(names: Sequence[str], what: str) -> list[str]:
    if not names:
        raise OptionError(f"give at least one {what}, or leave the option away for all.")
    return list(dict.fromkeys(names))


__all__ = [
    "COLD",
    "COLUMNS",
    "EXPERIMENTS",
    "Protocol",
    "best",
    "columns",
    "expand",
    "experiments",
    "grid",
    "protocol",
    "published",
    "settings",
    "sweep",
]
