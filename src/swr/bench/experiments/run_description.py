"""What a run was, in words: how it differs from the protocol of its experiment, and the command that repeats it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import fields, replace
from functools import cache

from swr import methods
from swr.bench.experiments.columns import COLUMNS, column_title, find_column
from swr.bench.experiments.config import RunConfig
from swr.bench.experiments.expansion import check_line, configure, settings
from swr.bench.experiments.paper import experiments, find_experiment
from swr.bench.experiments.published import TUNED
from swr.bench.words import listed
from swr.errors import SWRError

Deviations = tuple[tuple[str, object], ...]
"""fields and values that are not the protocol's; runs with the same ones may share a table"""

OWN = ("experiment", "column", "method", "hyper", "seed", "cold")
"""what the rows, columns and seeds of a table distinguish; everything else must be the same in one table"""

OPTIONS = {
    "inputs": "--inputs",
    "examples": "--examples",
    "validation": "--validation",
    "lr_schedule": "--lr-schedule",
    "precision": "--precision",
}
"""fields that an option of ``swr run`` changes"""


def reference(config: RunConfig) -> RunConfig | None:
    """The run that ``swr run`` makes of the same experiment, column, method and seed; None if there is none.

    >>> reference(RunConfig("generalization", "mnist-mlp", "l2", epochs=(20,))).epochs
    (200,)
    """
    known = standard(config.experiment, config.column, config.line)
    if not known:
        return None
    return replace(next((one for one in known if one.hyper == config.hyper), known[0]), seed=config.seed)


@cache
def standard(experiment: str, column: str, line: str) -> tuple[RunConfig, ...]:
    """The first seed of a method, or of ``cold``, as ``swr run`` makes it: once, or with each of several hyper-parameters.

    Empty for a name that this version does not know, or a reference line that the experiment does not have.
    """
    try:
        plan, place = find_experiment(experiment), find_column(column)
        check_line(line, plan)
        return tuple(configure(plan, place, line, hyper) for hyper in settings(plan, place, line))
    except SWRError:
        return ()


def deviations(config: RunConfig) -> Deviations:
    """What a run does differently, except for hyper-parameters; every field if the experiment has no such run."""
    base = reference(config)
    names = [field.name for field in fields(config) if field.name not in OWN]
    return tuple(
        (name, getattr(config, name)) for name in names if base is None or getattr(config, name) != getattr(base, name)
    )


def label(config: RunConfig) -> str:
    """The same in words; empty for the paper's protocol.

    >>> label(RunConfig("generalization", "mnist-mlp", "l2", epochs=(20,), validation=0.1))
    '20 of 200 epochs, 10 % of the training data held out'
    """
    base = reference(config)
    plain = RunConfig(config.experiment, config.column, config.method)
    words = []
    for name, value in deviations(config):
        if base is not None:
            words.append(_words(config, name, f" of {length(base.epochs)}"))
        elif name == "epochs" or value != getattr(plain, name):
            words.append(_words(config, name, ""))
    return ", ".join(words)


def origin(config: RunConfig) -> str:
    """Where the hyper-parameters of a run of ``swr run`` come from.

    >>> origin(RunConfig("lr-decay", "mnist-mlp", "l2", (("coefficient", 1e-5),)))
    "the paper's best of generalization, chosen on the test set"
    """
    if len(parts := methods.parts(config.method)) > 1:
        return "; ".join(dict.fromkeys(f"{name}: {origin(_part(config, name))}" for name in parts if _part(config, name).hyper))
    method = "swr" if config.method == "swr-reinit" else config.method
    plan, column = experiments().get(config.experiment), COLUMNS.get(config.column)
    ours = plan.hyper.get(config.column, {}).get(method) if plan else None
    if ours is not None and tuple(sorted(ours.items())) == config.hyper:
        return "ours"
    tables = column.hyper if column else {}
    for name in (config.experiment, *(name for name in TUNED if name != config.experiment)):
        known = tables.get(name, {}).get(method)
        if known is not None and tuple(sorted(known.items())) == config.hyper:
            of = "" if name == config.experiment else f" of {name}"
            elsewhere = f" on {column_title(column.hyper_of)}" if column and column.hyper_of else ""
            return f"the paper's best{of}{elsewhere}, chosen on the test set"
    return "a moderate value, not tuned"


def _part(config: RunConfig, name: str) -> RunConfig:
    """The same run with one of several methods that are combined."""
    own = {key.removeprefix(f"{name}."): value for key, value in config.hyper if key.startswith(f"{name}.")}
    return replace(config, method=name, hyper=tuple(own.items()))


def command(config: RunConfig, seeds: Sequence[int]) -> str | None:
    """The command that repeats a cell of a table, up to its largest seed.

    >>> command(RunConfig("generalization", "mnist-mlp", "vanilla", epochs=(20,)), seeds=[0, 1])
    'swr run generalization --columns mnist-mlp --methods vanilla --seeds 2 --epochs-scale 0.1'
    """
    base = reference(config)
    if base is None:
        return None
    ratios = [sum(config.epochs) / sum(base.epochs), *(config.epochs[k] / base.epochs[k] for k in (0, -1))]
    for ratio in dict.fromkeys(f"{ratio:.6g}" for ratio in ratios):  # numbers of epochs are rounded: one of them fits
        options = _seeds(seeds) + ("" if float(ratio) == 1 else f" --epochs-scale {ratio}")
        if found := _command(config, float(ratio)):
            return f"swr {found[0]} {options}{found[1]}"
    return None


def _command(config: RunConfig, scale: float) -> tuple[str, str] | None:
    """The command that makes this run at a scale, and no other but for the seed; with the options that follow the seeds."""
    plan, place = find_experiment(config.experiment), find_column(config.column)
    column, given = shlex.quote(config.column), dict(config.hyper)
    run = f"run {plan.name} --columns {column} --methods {shlex.quote(config.line)}"
    made = configure(plan, place, config.line, given, config.seed, scale)
    changed = {name: getattr(config, name) for name in OPTIONS if getattr(config, name) != getattr(made, name)}
    if None in changed.values() or replace(made, **changed) != config:
        return None
    options = "".join(f" {OPTIONS[name]} {value}" for name, value in changed.items())
    if settings(plan, place, config.line) == [given]:
        return run, options
    if given and _accepts(config.method, given):
        return run, " --hyper " + " ".join(f"{name}={value}" for name, value in config.hyper) + options
    return None


def _seeds(seeds: Sequence[int]) -> str:
    first, last = min(seeds), max(seeds)
    return f"--seeds {first}-{last}" if first else f"--seeds {last + 1}"


def _accepts(method: str, hyper: dict[str, float]) -> bool:
    """Whether a registered method has these options; one of the user's own is not imported to ask."""
    try:
        if ":" not in method:
            methods.check_options(method, hyper)
    except SWRError:
        return False
    return True


def length(epochs: tuple[int, ...]) -> str:
    """Epochs of each stage.

    >>> length((200,)), length((100, 100)), length((20,) * 10)
    ('200', '100 + 100', '10 x 20')
    >>> length((10, 50) * 15)
    '15 x (10 + 50)'
    """
    if len(epochs) > 3 and epochs == epochs[:2] * (len(epochs) // 2) and epochs[0] != epochs[1]:
        return f"{len(epochs) // 2} x ({length(epochs[:2])})"
    if len(epochs) > 2 and len(set(epochs)) == 1:
        return f"{len(epochs)} x {epochs[0]}"
    return " + ".join(map(str, epochs))


def _words(config: RunConfig, name: str, of: str) -> str:
    value = getattr(config, name)
    match name:
        case "epochs":
            return f"{length(config.epochs)}{of} epochs"
        case "validation":
            return f"{100 * value:g} % of the training data held out"
        case "examples":
            return "all training examples" if value is None else f"{value:,} training examples"
        case "label_noise":
            return f"{100 * value:g} % noisy labels"
        case "lr_drops":
            return f"learning rate falls at epoch {listed([*map(str, value)])}" if value else "learning rate never falls"
        case "lr_schedule":
            return f"learning rate by {value}"
        case "clip":
            return "gradients not clipped" if value is None else f"gradients clipped at {value:g}"
        case "lr":
            return f"learning rate {value:g}"
        case "precision":
            return f"{value} autocast" if value == "bf16" else f"{value} throughout"
        case "inputs":
            return f"{value} inputs"
        case "scenario":
            return str(value)
        case _:
            return f"{name.replace('_', ' ')} {value}"
