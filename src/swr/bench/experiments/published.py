"""The paper's five columns, with the hyper-parameters of its appendix and the results of its tables.

`generalization` and `lr-decay` are tables in the paper; the other experiments are figures, without numbers. `lr-decay` uses the
hyper-parameters of `generalization`.
"""

from __future__ import annotations

from swr.bench.experiments.column import Column, Hyper, results, tuned

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

RATIOS = (0.9, 0.7, 0.5, 0.3, 0.1)
"""by which a trained network is scaled, naively and proportionally; the paper speaks of "different scaling magnitudes" only"""

TUNED = ("generalization", "warm-start", "continual-full", "continual-limited")
"""the experiments with a table of best hyper-parameters in the paper, in the order in which others borrow from them"""

FIVE: tuple[Column, ...] = (
    Column(
        "mnist-mlp",
        dataset="mnist",
        model="mlp",
        title="MNIST (MLP)",
        hyper={
            "warm-start": tuned(shrink_perturb=0.4, l2=1e-5, l2_init=1e-5, swr=1e-4),
            "continual-full": tuned(shrink_perturb=0.6, l2=1e-4, l2_init=1e-4, swr=1e-4),
            "continual-limited": tuned(shrink_perturb=0.2, l2=1e-5, l2_init=1e-5, swr=1e-4),
            "generalization": tuned(l2=1e-5, l2_init=1e-5, swr=1e-4),
        },
        published={
            "generalization": results(
                vanilla=(0.9789, 0.0009), l2=(0.9795, 0.0019), l2_init=(0.9793, 0.0016), swr=(0.9822, 0.0024)
            ),
            "lr-decay": results(
                vanilla=(0.9798, 0.0005),
                l2=(0.9811, 0.0007),
                l2_init=(0.9811, 0.0007),
                swr=(0.9796, 0.0009),
                swr_reinit=(0.9829, 0.0002),
            ),
        },
    ),
    Column(
        "cifar10-cnn",
        dataset="cifar10",
        model="cnn",
        title="CIFAR-10 (CNN)",
        hyper={
            "warm-start": tuned(shrink_perturb=0.8, l2=1e-2, l2_init=1e-2, swr=1e-3),
            "continual-full": tuned(shrink_perturb=0.8, l2=1e-2, l2_init=1e-2, swr=1e-3),
            "continual-limited": tuned(shrink_perturb=0.4, l2=1e-2, l2_init=1e-2, swr=1e-1),
            "generalization": tuned(l2=1e-2, l2_init=1e-2, swr=1e-3),
        },
        published={
            "generalization": results(
                vanilla=(0.6500, 0.0083), l2=(0.7119, 0.0037), l2_init=(0.7041, 0.0125), swr=(0.7158, 0.0063)
            ),
            "lr-decay": results(
                vanilla=(0.6571, 0.0057),
                l2=(0.7304, 0.0039),
                l2_init=(0.7286, 0.0023),
                swr=(0.6925, 0.0078),
                swr_reinit=(0.7269, 0.0027),
            ),
        },
    ),
    Column(
        "cifar100-cnn",
        dataset="cifar100",
        model="cnn",
        title="CIFAR-100 (CNN)",
        hyper={
            "warm-start": tuned(shrink_perturb=0.8, l2=1e-2, l2_init=1e-2, swr=1e-3),
            "continual-full": tuned(shrink_perturb=0.8, l2=1e-2, l2_init=1e-2, swr=1e-3),
            "continual-limited": tuned(shrink_perturb=0.6, l2=1e-2, l2_init=1e-2, swr=1e-1),
            "generalization": tuned(l2=1e-2, l2_init=1e-2, swr=1e-3),
        },
        published={
            "generalization": results(
                vanilla=(0.3283, 0.0067), l2=(0.3882, 0.0064), l2_init=(0.3881, 0.0050), swr=(0.3914, 0.0070)
            ),
            "lr-decay": results(
                vanilla=(0.3490, 0.0021),
                l2=(0.3949, 0.0091),
                l2_init=(0.4048, 0.0019),
                swr=(0.3599, 0.0054),
                swr_reinit=(0.4133, 0.0058),
            ),
        },
    ),
    Column(
        "cifar100-cnnbn",
        dataset="cifar100",
        model="cnnbn",
        title="CIFAR-100 (CNN-BN)",
        hyper={
            "warm-start": tuned(shrink_perturb=0.8, l2=1e-2, l2_init=1e-2, swr=(1e-4, 1.0)),
            "continual-full": tuned(shrink_perturb=0.8, l2=1e-2, l2_init=1e-2, swr=(1e-4, 1e-1)),
            "continual-limited": tuned(shrink_perturb=0.4, l2=1e-2, l2_init=1e-2, swr=(1e-1, 1e-2)),
            "generalization": tuned(l2=1e-2, l2_init=1e-2, swr=(1e-4, 1e-1)),
        },
        published={
            "generalization": results(
                vanilla=(0.3234, 0.0053), l2=(0.4222, 0.0043), l2_init=(0.4030, 0.0105), swr=(0.4129, 0.0105)
            ),
            "lr-decay": results(
                vanilla=(0.3483, 0.0043),
                l2=(0.4532, 0.0040),
                l2_init=(0.4341, 0.0019),
                swr=(0.4240, 0.0015),
                swr_reinit=(0.4451, 0.0028),
            ),
        },
    ),
    Column(
        "tinyimagenet-vgg16",
        dataset="tinyimagenet",
        model="vgg16",
        title="TinyImageNet (VGG-16)",
        seeds=3,
        hyper={
            "warm-start": tuned(shrink_perturb=0.8, l2=1e-5, l2_init=1e-5, swr=(1e-2, 1e-1)),
            "continual-full": tuned(shrink_perturb=0.8, l2=1e-4, l2_init=1e-4, swr=(1e-2, 1e-2)),
            "continual-limited": tuned(shrink_perturb=0.4, l2=1e-4, l2_init=1e-3, swr=(1e-4, 1.0)),
            "generalization": tuned(l2=1e-5, l2_init=1e-5, swr=(1e-2, 1e-1)),
        },
        published={
            "generalization": results(
                vanilla=(0.3912, 0.0142), l2=(0.3915, 0.0108), l2_init=(0.3870, 0.0143), swr=(0.4348, 0.0025)
            ),
            "lr-decay": results(
                vanilla=(0.4126, 0.0236),
                l2=(0.4080, 0.0124),
                l2_init=(0.4199, 0.0048),
                swr=(0.5221, 0.0123),
                swr_reinit=(0.5165, 0.0070),
            ),
        },
    ),
)
"""in the paper's order"""
