"""The paper's appendix tables and published results, as data."""

from __future__ import annotations

from dataclasses import dataclass

Hyper = dict[str, float]
"""hyper-parameters by the method's keyword"""


@dataclass(frozen=True)
class Published:
    """Final test accuracy over the paper's seeds."""

    mean: float
    std: float


GRIDS: dict[str, tuple[float, ...]] = {
    "l2": (1e-1, 1e-2, 1e-3, 1e-4, 1e-5),
    "l2-init": (1e-1, 1e-2, 1e-3, 1e-4, 1e-5),
    "shrink-perturb": (0.2, 0.4, 0.6, 0.8),
    "swr": (1.0, 1e-1, 1e-2, 1e-3, 1e-4),
    "swr-reinit": (1.0, 1e-1, 1e-2, 1e-3, 1e-4),
}
"""λ as it was swept; SWR on networks with batch normalisation: λ_f x λ_c, both over these"""

DEFAULTS: Hyper = {"l2": 1e-3, "l2-init": 1e-3, "shrink-perturb": 0.4, "swr": 1e-3}
"""for columns that the paper does not have"""


def _row(shrink: float | None, l2: float, l2_init: float, swr: float | tuple[float, float]) -> dict[str, Hyper]:
    rescale = {"coefficient": swr} if isinstance(swr, float) else {"features": swr[0], "classifier": swr[1]}
    row = {"l2": {"coefficient": l2}, "l2-init": {"coefficient": l2_init}, "swr": rescale}
    return row if shrink is None else {"shrink-perturb": {"coefficient": shrink}, **row}


RATIOS = (0.9, 0.7, 0.5, 0.3, 0.1)
"""by which a trained network is scaled, naively and proportionally; the paper speaks of "different scaling magnitudes" only"""

HYPER: dict[str, dict[str, dict[str, Hyper]]] = {
    "warm-start": {
        #                          S&P  L2    L2 Init  SWR λ or (λ_f, λ_c)
        "mnist-mlp": _row(0.4, 1e-5, 1e-5, 1e-4),
        "cifar10-cnn": _row(0.8, 1e-2, 1e-2, 1e-3),
        "cifar100-cnn": _row(0.8, 1e-2, 1e-2, 1e-3),
        "cifar100-cnnbn": _row(0.8, 1e-2, 1e-2, (1e-4, 1.0)),
        "tinyimagenet-vgg16": _row(0.8, 1e-5, 1e-5, (1e-2, 1e-1)),
    },
    "continual-full": {
        "mnist-mlp": _row(0.6, 1e-4, 1e-4, 1e-4),
        "cifar10-cnn": _row(0.8, 1e-2, 1e-2, 1e-3),
        "cifar100-cnn": _row(0.8, 1e-2, 1e-2, 1e-3),
        "cifar100-cnnbn": _row(0.8, 1e-2, 1e-2, (1e-4, 1e-1)),
        "tinyimagenet-vgg16": _row(0.8, 1e-4, 1e-4, (1e-2, 1e-2)),
    },
    "continual-limited": {
        "mnist-mlp": _row(0.2, 1e-5, 1e-5, 1e-4),
        "cifar10-cnn": _row(0.4, 1e-2, 1e-2, 1e-1),
        "cifar100-cnn": _row(0.6, 1e-2, 1e-2, 1e-1),
        "cifar100-cnnbn": _row(0.4, 1e-2, 1e-2, (1e-1, 1e-2)),
        "tinyimagenet-vgg16": _row(0.4, 1e-4, 1e-3, (1e-4, 1.0)),
    },
    "generalization": {
        "mnist-mlp": _row(None, 1e-5, 1e-5, 1e-4),
        "cifar10-cnn": _row(None, 1e-2, 1e-2, 1e-3),
        "cifar100-cnn": _row(None, 1e-2, 1e-2, 1e-3),
        "cifar100-cnnbn": _row(None, 1e-2, 1e-2, (1e-4, 1e-1)),
        "tinyimagenet-vgg16": _row(None, 1e-5, 1e-5, (1e-2, 1e-1)),
    },
    # Ours, for the quick start and streams on digits; everything above is the paper's.
    "quickstart": {"digits-mlp": _row(0.8, 1e-2, 1e-2, 1e-2)},
    "permuted-pixels": {"digits-mlp": _row(0.4, 1e-3, 1e-3, 1e-2)},
    "random-labels": {"digits-mlp": _row(0.4, 1e-3, 1e-3, 1e-3)},
    "label-permutation": {"digits-mlp": _row(0.4, 1e-3, 1e-3, 1e-3)},
}
"""the best hyper-parameters of the paper's three tables, chosen on the test set; `lr-decay` uses those of `generalization`"""

_COLUMNS = ("mnist-mlp", "cifar10-cnn", "cifar100-cnn", "cifar100-cnnbn", "tinyimagenet-vgg16")


def _results(*pairs: tuple[float, float]) -> dict[str, Published]:
    return {column: Published(*pair) for column, pair in zip(_COLUMNS, pairs, strict=True)}


PUBLISHED: dict[str, dict[str, dict[str, Published]]] = {
    "generalization": {
        "vanilla": _results((0.9789, 0.0009), (0.6500, 0.0083), (0.3283, 0.0067), (0.3234, 0.0053), (0.3912, 0.0142)),
        "l2": _results((0.9795, 0.0019), (0.7119, 0.0037), (0.3882, 0.0064), (0.4222, 0.0043), (0.3915, 0.0108)),
        "l2-init": _results((0.9793, 0.0016), (0.7041, 0.0125), (0.3881, 0.0050), (0.4030, 0.0105), (0.3870, 0.0143)),
        "swr": _results((0.9822, 0.0024), (0.7158, 0.0063), (0.3914, 0.0070), (0.4129, 0.0105), (0.4348, 0.0025)),
    },
    "lr-decay": {
        "vanilla": _results((0.9798, 0.0005), (0.6571, 0.0057), (0.3490, 0.0021), (0.3483, 0.0043), (0.4126, 0.0236)),
        "l2": _results((0.9811, 0.0007), (0.7304, 0.0039), (0.3949, 0.0091), (0.4532, 0.0040), (0.4080, 0.0124)),
        "l2-init": _results((0.9811, 0.0007), (0.7286, 0.0023), (0.4048, 0.0019), (0.4341, 0.0019), (0.4199, 0.0048)),
        "swr": _results((0.9796, 0.0009), (0.6925, 0.0078), (0.3599, 0.0054), (0.4240, 0.0015), (0.5221, 0.0123)),
        "swr-reinit": _results((0.9829, 0.0002), (0.7269, 0.0027), (0.4133, 0.0058), (0.4451, 0.0028), (0.5165, 0.0070)),
    },
}
"""final test accuracy by experiment, method and column; the other experiments are figures in the paper"""
