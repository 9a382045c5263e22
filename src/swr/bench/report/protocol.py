"""How a run relates to the protocol of its experiment: what differs, where its hyper-parameters come from, its command."""

import shlex
from collections.abc import Iterable
from dataclasses import fields, replace
from functools import cache, partial

from swr.bench import columns, paper
from swr.bench.config import INPUTS, RunConfig
from swr.bench.tables import GRIDS, HYPER
from swr.errors import SWRError
from swr.methods import UnknownName, describe

Deviations = tuple[tuple[str, object], ...]
"""fields and values that are not the protocol's; runs with the same ones may share a table"""

OWN = ("experiment", "column", "method", "hyper", "seed", "cold")
"""what a table's rows, columns and seeds tell apart; everything else must be the same in one table"""

TUNED = ("generalization", "warm-start", "continual-full", "continual-limited")
"""the experiments with a table of best hyper-parameters in the paper, in the order in which others borrow from them"""


def reference(config: RunConfig) -> RunConfig | None:
    """The run that ``swr run`` makes of the same experiment, column, method and seed; None where there is none.

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

    Nothing for a name that this swr does not know, or a reference line that the experiment does not have.
    """
    try:
        return tuple(paper.expand(experiment, columns=[column], methods=[line], seeds=[0]))
    except SWRError:
        return ()


def deviations(config: RunConfig) -> Deviations:
    """What a run does differently, its hyper-parameters aside; all there is to say where the paper has no such run."""
    base = reference(config)
    names = [field.name for field in fields(config) if field.name not in OWN]
    return tuple(
        (name, getattr(config, name)) for name in names if base is None or getattr(config, name) != getattr(base, name)
    )


def label(config: RunConfig) -> str:
    """The same in words; nothing for the paper's protocol.

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


def hyper(config: RunConfig) -> str:
    """A run's hyper-parameters with the paper's symbols: ``λ=0.001``."""
    _, symbols = describe(config.method)
    return " ".join(f"{symbols.get(key, key)}={value:g}" for key, value in config.hyper)


def origin(config: RunConfig) -> str:
    """Where the hyper-parameters of a run of ``swr run`` come from.

    >>> origin(RunConfig("lr-decay", "mnist-mlp", "l2", (("coefficient", 1e-5),)))
    "the paper's best of generalization, chosen on the test set"
    """
    method = "swr" if config.method == "swr-reinit" else config.method
    tables = [config.experiment, *(name for name in TUNED if name != config.experiment)]
    for name in tables:
        known = HYPER.get(name, {}).get(config.column, {}).get(method)
        if known is not None and tuple(sorted(known.items())) == config.hyper:
            if name not in TUNED or config.column not in columns.PAPER:
                return "ours"
            of = "" if name == config.experiment else f" of {name}"
            return f"the paper's best{of}, chosen on the test set"
    return "a moderate value, not tuned"


def command(config: RunConfig, seeds: Iterable[int]) -> str | None:
    """What makes a cell of a table again, up to its largest seed: the run itself, or the sweep that holds data out for it.

    >>> command(RunConfig("generalization", "mnist-mlp", "vanilla", epochs=(20,)), seeds=[0, 1])
    'swr run generalization --columns mnist-mlp --methods vanilla --seeds 2 --epochs-scale 0.1'
    """
    base = reference(config)
    if base is None:
        return None
    ratios = [sum(config.epochs) / sum(base.epochs), *(config.epochs[k] / base.epochs[k] for k in (0, -1))]
    for ratio in dict.fromkeys(f"{ratio:.6g}" for ratio in ratios):  # numbers of epochs are rounded: one of them fits
        options = f"--seeds {max(seeds) + 1}" + ("" if float(ratio) == 1 else f" --epochs-scale {ratio}")
        if found := _command(config, float(ratio)):
            return f"swr {found[0]} {options}{found[1]}"
    return None


def _command(config: RunConfig, scale: float) -> tuple[str, str] | None:
    """The command that makes a run at this scale and no other but for the seed, and options to stand at its end."""
    experiment, column, seed = config.experiment, shlex.quote(config.column), [config.seed]
    run = f"run {experiment} --columns {column} --methods {shlex.quote(config.line)}"
    inputs = "" if config.inputs == INPUTS[0] else f" --inputs {config.inputs}"
    expand = partial(
        paper.expand,
        experiment,
        columns=[config.column],
        methods=[config.line],
        seeds=seed,
        epochs_scale=scale,
        inputs=config.inputs,
    )
    if expand() == [config]:
        return run, inputs
    if config.hyper and expand(hyper=dict(config.hyper)) == [config]:
        return run, " --hyper " + " ".join(f"{name}={value}" for name, value in config.hyper) + inputs
    if config.method in GRIDS and config in paper.sweep(
        experiment, config.column, config.method, seeds=seed, epochs_scale=scale
    ):
        return f"sweep {experiment} --column {column} --method {config.method}", ""
    return None


def column_title(name: str) -> str:
    """A column as the paper writes it."""
    try:
        return columns.find(name).title
    except UnknownName:
        return name


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
        case "label_noise":
            return f"{100 * value:g} % noisy labels"
        case "lr_drops":
            return f"learning rate falls at epoch {' and '.join(map(str, value))}" if value else "learning rate never falls"
        case "lr":
            return f"learning rate {value:g}"
        case "inputs":
            return f"{value} inputs"
        case "scenario":
            return str(value)
        case _:
            return f"{name.replace('_', ' ')} {value}"
