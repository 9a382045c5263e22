"""The learning rate of every step of a run, as a pure function of where in the run it is.

Of the T steps of a run, all stages together, t = 0 … T-1 is the current one, and η the learning rate of the configuration:

    step            η f^k, with f ``lr_factor`` and k the number of ``lr_drops`` up to this epoch; constant without any
    cosine          η (1 + cos(π t / T)) / 2
    warmup-cosine   η (t + 1) / W in the first W = ⌈T / 20⌉ steps, then the cosine over the other T - W
    one-cycle       from η / 25 up to η at 0.3 T, then down to η / 250,000, each along half a cosine
    restarts        the cosine four times, over a quarter of the run each

1-cycle: L. N. Smith, N. Topin, 2019, "Super-Convergence", with the numbers of torch's ``OneCycleLR``; Adam's β₁ stays as it is.
Restarts: I. Loshchilov, F. Hutter, 2017, "SGDR", with periods of equal length. No step has a rate of 0.
"""

from __future__ import annotations

import math

from swr.bench.experiments import RunConfig

WARMUP = 20
"""the warm-up takes one step in so many"""
PEAK, START, END = 0.3, 1 / 25, 1 / 250_000
"""of 1-cycle: when the rate is largest, and the parts of it at both ends"""
PERIODS = 4
"""of the cosine with restarts"""


def lr_at(config: RunConfig, epoch: int, step: int, steps: int) -> float:
    """The learning rate of a step.

    >>> config = RunConfig("generalization", "mnist-mlp", "vanilla", lr_schedule="cosine")
    >>> [lr_at(config, epoch, step=epoch - 1, steps=4) for epoch in (1, 3)]
    [0.001, 0.0005]

    Args:
        config: Says which schedule.
        epoch: That the step belongs to, counted from 1 over all stages.
        step: From 0, over all stages.
        steps: Of the whole run.
    """
    match config.lr_schedule:
        case "step":
            return config.lr * config.lr_factor ** sum(1 for drop in config.lr_drops if drop <= epoch)
        case "cosine":
            part = _falling(step / steps)
        case "warmup-cosine":
            warmup = -(-steps // WARMUP)
            part = (step + 1) / warmup if step < warmup else _falling((step - warmup) / (steps - warmup))
        case "one-cycle":
            peak = PEAK * steps
            if step < peak:
                part = 1 - (1 - START) * _falling(step / peak)
            else:
                part = END + (1 - END) * _falling((step - peak) / (steps - peak))
        case "restarts":
            part = _falling(PERIODS * step % steps / steps)
    return config.lr * part


def _falling(done: float) -> float:
    """Half a cosine from 1 to 0."""
    return (1 + math.cos(math.pi * done)) / 2
