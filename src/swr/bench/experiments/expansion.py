"""From the name of an experiment, or of a sweep, to the configurations of its runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from swr import methods as registry
from swr.bench.experiments.column import Column, Hyper
from swr.bench.experiments.columns import find_column
from swr.bench.experiments.config import Inputs, Precision, RunConfig
from swr.bench.experiments.experiment import Experiment, LRSchedule
from swr.bench.experiments.grids import Grid, points
from swr.bench.experiments.paper import COLD, find_experiment
from swr.bench.experiments.published import DEFAULTS, GRIDS, RATIOS
from swr.bench.words import require
from swr.errors import OptionError
from swr.methods import UnknownName
from swr.rescaling.aim import DEFAULT_GROWTH

Select = Literal["validation", "test"]

VALIDATION = 0.1
"""part of the training data that a sweep holds out"""

SCALINGS = ("naive-scaling", "proportional-scaling")
"""methods that are run with every ratio"""


def expand(
    experiment: str,
    *,
    columns: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    seeds: int | Sequence[int] | None = None,
    epochs_scale: float = 1.0,
    hyper: Hyper | None = None,
    inputs: Inputs = "normalised",
    examples: int | None = None,
    validation: float = 0.0,
    lr_schedule: LRSchedule | None = None,
    precision: Precision = "float32",
) -> list[RunConfig]:
    """The runs of an experiment, with the paper's best hyper-parameters; seed by seed, so that early results cover all methods.

    >>> len(expand("generalization", columns=["mnist-mlp"]))
    20

    Args:
        experiment: Its name.
        columns: Names of columns; by default those of the paper's table or figure (``quickstart``: digits).
        methods: Names of methods, or ``cold`` for the reference from scratch; by default those of the paper, references
            included. A ``MODULE:CLASS`` is not imported here. ``NAME+NAME`` combines several, each with its own best
            hyper-parameters.
        seeds: How many, 0 … n-1, or which; by default 5, for VGG-16 3.
        epochs_scale: Multiplies every number of epochs, at least 1 is left; of a stream of one epoch a task, the number of
            tasks.
        hyper: Hyper-parameters of the one method that is named, instead of the paper's best.
        inputs: ``"raw"`` leaves the images as they are, from 0 to 1.
        examples: How many training examples are used, by default the experiment's own number, mostly all.
        validation: Part of the training data that is held out.
        lr_schedule: How the learning rate changes, by default as the experiment has it.
        precision: ``"bf16"`` passes through the network in bfloat16, about twice as fast on large ones.
    """
    plan = find_experiment(experiment)
    chosen = [find_column(name) for name in _unique(plan.columns if columns is None else columns, "column")]
    lines = _unique(plan.methods if methods is None else methods, "method")
    for line in lines:
        check_line(line, plan)
    if hyper is not None:
        hyper = _checked(hyper, lines)
    return [
        _changed(config, inputs=inputs, examples=examples, lr_schedule=lr_schedule, precision=precision)
        for column in chosen
        for seed in _seeds(seeds, plan.seeds or column.seeds)
        for line in lines
        for one in (settings(plan, column, line) if hyper is None else [hyper])
        for config in (configure(plan, column, line, one, seed, epochs_scale, validation=validation),)
    ]


def sweep(
    experiment: str,
    column: str,
    method: str,
    *,
    seeds: int | Sequence[int] | None = None,
    epochs_scale: float = 1.0,
    select: Select = "validation",
    grid: Grid | None = None,
    examples: int | None = None,
    lr_schedule: LRSchedule | None = None,
) -> list[RunConfig]:
    """Every point of a grid for a method: by default the paper's, λ, or λ_f x λ_c for SWR on networks with batch normalisation.

    >>> [config.hyper for config in sweep("warm-start", "mnist-mlp", "shrink-perturb", seeds=1)][0]
    (('coefficient', 0.2),)

    Args:
        select: ``"validation"`` holds out a tenth of the training data to choose on; ``"test"`` trains on everything and
            chooses on the test set, as the paper does. A stream holds nothing out: its own metric decides.
        grid: Values of hyper-parameters to try, in place of the default grid; of several, every combination.
        examples: As in :func:`expand`; what is held out is a part of them.
        lr_schedule: As in :func:`expand`.
    """
    if select not in ("validation", "test"):
        raise OptionError(f'select must be "validation" or "test", found {select!r}.')
    plan, place = find_experiment(experiment), find_column(column)
    check_line(method, plan)
    tried = [_checked(hyper, [method]) for hyper in points(place, method, grid)]
    validation = VALIDATION if select == "validation" and plan.scenario.holds_out else 0.0
    return [
        _changed(config, examples=examples, lr_schedule=lr_schedule)
        for hyper in tried
        for seed in _seeds(seeds, plan.seeds or place.seeds)
        for config in (configure(plan, place, method, hyper, seed, epochs_scale, validation=validation),)
    ]


def configure(
    experiment: Experiment,
    column: Column,
    line: str,
    hyper: Hyper,
    seed: int = 0,
    scale: float = 1.0,
    *,
    validation: float = 0.0,
) -> RunConfig:
    """One run of an experiment.

    Args:
        line: The name of a method, or ``cold``.
        scale: Multiplies every number of epochs, or of tasks.
    """
    require(0 < scale < math.inf, "epochs_scale", "positive", scale)
    experiment.fits(column)
    return RunConfig(
        experiment=experiment.name,
        column=column.name,
        method=_method(line),
        hyper=tuple(hyper.items()),
        seed=seed,
        cold=line == COLD,
        validation=validation,
        **experiment.schedule(column, scale),
    )


def settings(experiment: Experiment, column: Column, line: str) -> list[Hyper]:
    """What an experiment runs a line with: its best hyper-parameters, or each ratio of a scaling.

    >>> settings(find_experiment("proportionality"), find_column("cifar10-cnn"), "naive-scaling")[0]
    {'ratio': 0.9}
    """
    return [{"ratio": c} for c in RATIOS] if line in SCALINGS else [best(experiment, column, _method(line))]


def best(experiment: Experiment, column: Column, method: str) -> Hyper:
    """The paper's best hyper-parameters; where it has none, those of the nearest table, else a moderate value.

    >>> best(find_experiment("warm-start"), find_column("mnist-mlp"), "swr+l2")
    {'swr.coefficient': 0.0001, 'l2.coefficient': 1e-05}
    """
    if len(parts := registry.parts(method)) > 1:
        return {key: value for part in parts for key, value in _of_part(part, best(experiment, column, part)).items()}
    if method == registry.SWRBudget.name:
        return {"growth": DEFAULT_GROWTH}  # in the identity of a run, so that another default is another run
    name = "swr" if method == "swr-reinit" else method
    tables = [experiment.hyper.get(column.name, {}), *(column.hyper.get(t, {}) for t in (experiment.name, *experiment.nearest))]
    for table in tables:
        if name in table:
            return dict(table[name])
    if name not in GRIDS:
        return {}
    if name == "swr" and column.normalised:
        return {"features": DEFAULTS[name], "classifier": DEFAULTS[name]}
    return {"coefficient": DEFAULTS[name]}


def check_line(line: str, experiment: Experiment) -> None:
    """Raise an error for a line that an experiment cannot have: an unknown method, or a wrong reference."""
    known = (COLD, *registry.names())
    if line not in known:
        if ":" in line:
            registry.describe(line)
        elif len(registry.parts(line)) > 1:
            registry.find(line)
        else:
            raise UnknownName("method", line, known, registry.ALSO)
    if line != COLD or experiment.scenario.reference == COLD:
        return
    if experiment.scenario.reference is None:
        raise OptionError(f"{experiment.name} has one stage only, so that cold is the same as vanilla: leave it out.")
    fresh = experiment.scenario.reference
    raise OptionError(f"{experiment.name} compares with a fresh network for every task: write {fresh} in place of cold.")


def _changed(config: RunConfig, **given: Any) -> RunConfig:
    """The run with other values in the fields that are given, those that are not None."""
    return replace(config, **{name: value for name, value in given.items() if value is not None})


def _method(line: str) -> str:
    return "vanilla" if line == COLD else line


def _of_part(part: str, hyper: Hyper) -> Hyper:
    return {f"{part}.{key}": value for key, value in hyper.items()}


def _checked(hyper: Hyper, lines: Sequence[str]) -> Hyper:
    if len(lines) != 1:
        raise OptionError(f"hyper-parameters belong to one method, and {len(lines)} would run: name it with --methods.")
    method = _method(lines[0])
    if ":" in method:
        return hyper
    registry.check_options(method, hyper)
    return registry.addressed(method, hyper)


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
        raise OptionError(f"give at least one {what}, or leave the option out for all.")
    return list(dict.fromkeys(names))
