"""The paper's experiments, and the quick start. A new one is one more entry.

Epochs are counted from 1, so the learning rate of `lr-decay` falls before the 100th and the 150th epoch are trained: 99 epochs
at 1e-3, 50 at 1e-4, 51 at 1e-5.
"""

from __future__ import annotations

from swr.bench.experiments.balancedness import BALANCEDNESS
from swr.bench.experiments.chunks import CONTINUAL_FULL, CONTINUAL_LIMITED, CONTINUED, SINGLE, WARM_START
from swr.bench.experiments.column import tuned
from swr.bench.experiments.experiment import Experiment, Staged, heading
from swr.bench.experiments.ours import OURS
from swr.bench.experiments.published import TUNED
from swr.bench.experiments.streams import STREAMS
from swr.methods import UnknownName

COLD = "cold"
"""the name of the reference line: vanilla from scratch on all data"""

RESETS = ("vanilla", "l2", "l2-init", "shrink-perturb", "head-reset", "swr")

PAPER: dict[str, Experiment] = {
    one.name: one
    for one in (
        Staged(
            "warm-start",
            "100 epochs on half of the data, then 100 on all of it",
            WARM_START,
            epochs=(100, 100),
            methods=(COLD, *RESETS),
        ),
        Staged(
            "continual-full",
            "10 chunks that accumulate, 100 epochs a stage",
            CONTINUAL_FULL,
            epochs=(100,) * 10,
            methods=RESETS,
            title="Continual learning, full access",
        ),
        Staged(
            "continual-limited",
            "10 chunks, each seen for 100 epochs only",
            CONTINUAL_LIMITED,
            epochs=(100,) * 10,
            methods=RESETS,
            title="Continual learning, limited access",
        ),
        Staged(
            "generalization",
            "200 epochs on all data",
            SINGLE,
            epochs=(200,),
            methods=("vanilla", "l2", "l2-init", "swr"),
            nearest=("warm-start",),
        ),
        Staged(
            "lr-decay",
            "the same, the learning rate falls to a tenth at epochs 100 and 150",
            SINGLE,
            epochs=(200,),
            methods=("vanilla", "l2", "l2-init", "swr", "swr-reinit"),
            title="Learning rate decay",
            lr_drops=(100, 150),
            nearest=TUNED[:2],
        ),
        Staged(
            "proportionality",
            "100 epochs, then all weights scaled by a ratio, naively or proportionally, then 50 more",
            CONTINUED,
            epochs=(100, 50),
            methods=("vanilla", "naive-scaling", "proportional-scaling"),
            columns=("cifar10-cnn",),
            nearest=TUNED[:2],
        ),
        BALANCEDNESS,
        Staged(
            "quickstart",
            "warm start on digits with 30 % noisy labels, about a minute",
            WARM_START,
            epochs=(60, 60),
            methods=(COLD, "vanilla", "l2", "shrink-perturb", "swr"),
            columns=("digits-mlp",),
            title="Quick start",
            label_noise=0.3,
            seeds=3,
            hyper={"digits-mlp": tuned(shrink_perturb=0.8, l2=1e-2, l2_init=1e-2, swr=1e-2)},
            nearest=("warm-start",),
        ),
    )
}


def experiments() -> dict[str, Experiment]:
    """All experiments by name: the paper's, ours, then the streams."""
    return {**PAPER, **OURS, **STREAMS}


def find_experiment(name: str) -> Experiment:
    """The experiment of that name.

    >>> find_experiment("lr-decay").methods
    ('vanilla', 'l2', 'l2-init', 'swr', 'swr-reinit')
    """
    known = experiments()
    if name not in known:
        raise UnknownName("experiment", name, known)
    return known[name]


def title(name: str) -> str:
    """An experiment as a heading, also one that this version does not know.

    >>> title("continual-full")
    'Continual learning, full access'
    """
    found = experiments().get(name)
    return found.title if found and found.title else heading(name)
