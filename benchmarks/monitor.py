"""What a monitor costs at its default interval: ratios measured side by side in one run, on one thread.

    python benchmarks/monitor.py

All that a monitor does happens inside ``optimizer.step()``, so what it adds is measured there: on a step that is recorded, into
a CSV file, and on one that is not. Over the time of a training step (forward, backward and a fused Adam step on a batch of 256
that lies ready) and one record in as many steps as the default says, this gives the ratio of training with to without.
Below, what one record of each measure takes in training steps; from it follows the interval at which it costs 2 %.
"""

from __future__ import annotations

import inspect
import statistics
import tempfile
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

import swr
from swr.bench.experiments import models
from swr.bench.training.process import flushed_denormals
from swr.diagnostics import Monitor
from swr.diagnostics.monitor.measures import MEASURES
from timing import Row, Times, show, side_by_side

BATCH = 256
INTERVAL: int = inspect.signature(Monitor).parameters["every"].default
NEVER = 10**9
SHAPES = {"mlp": (1, 28, 28), "cnn": (3, 32, 32)}


class Loop:
    """A model and its optimizer after a backward pass, with or without a rescaler and a monitor."""

    def __init__(self, name: str, rescaled: bool = False, **monitor: Any) -> None:
        torch.manual_seed(0)
        layout = torch.channels_last if name == "cnn" else torch.contiguous_format
        inputs = [torch.randn(BATCH, *SHAPES[name]).contiguous(memory_format=layout) for _ in range(16)]
        self._batches = cycle([(x, torch.randint(10, (BATCH,))) for x in inputs])
        self.model = models.build(name, SHAPES[name], 10)
        self.optimizer = torch.optim.Adam(self.model.parameters(), fused=True)
        rescaler = swr.SoftWeightRescaling(self.model, inputs[0][:2]) if rescaled else None
        if rescaler is not None:
            rescaler.attach(self.optimizer)
        if monitor:
            options = {"anchors": rescaler, "batch": next(self._batches), "loss_fn": F.cross_entropy, **monitor}
            Monitor(self.model, **options).attach(self.optimizer)
        self.train()

    def train(self) -> None:
        """A whole training step."""
        inputs, labels = next(self._batches)
        self.optimizer.zero_grad()
        F.cross_entropy(self.model(inputs), labels).backward()
        self.optimizer.step()


def added(times: Times, what: str, rounds: range) -> list[float]:
    """What a monitor adds to a step, in training steps, in every round."""
    return [(times[what][i] - times["plain"][i]) / times["training"][i] for i in rounds]


def at_the_default(name: str, rounds: int, folder: Path) -> list[Row]:
    """Training with the default monitor over training without; plain, and with SWR on both sides and its limits recorded."""
    rows = []
    for rescaled in (False, True):
        loops = {
            "plain": Loop(name, rescaled),
            "idle": Loop(name, rescaled, every=NEVER),
            "recorded": Loop(name, rescaled, every=1, to=folder / f"{name}-{rescaled}.csv"),
        }
        candidates: dict[str, Callable[[], object]] = {key: loop.optimizer.step for key, loop in loops.items()}
        times = side_by_side({**candidates, "training": Loop(name, rescaled).train}, rounds, inner=5)
        idle, recorded = (added(times, key, range(rounds)) for key in ("idle", "recorded"))
        cost = statistics.median(((INTERVAL - 1) * a + b) / INTERVAL for a, b in zip(idle, recorded, strict=True))
        method = "SWR" if rescaled else "vanilla"
        rows.append((name, f"{method} with a monitor every {INTERVAL} steps / {method}", 1 + cost, "<= 1.02"))
        medians = {key: statistics.median(values) * 1e6 for key, values in times.items()}
        print(
            f"{name}, {method}: {medians['training']:.0f} us a training step; a monitor adds "
            f"{medians['recorded'] - medians['plain']:.0f} us when it records and {medians['idle'] - medians['plain']:.1f} us "
            "when not",
            flush=True,
        )
    return rows


def of_each_measure(name: str, rounds: int) -> None:
    """One record of each measure, in training steps."""
    for measure in MEASURES:
        plain, loop = Loop(name, rescaled=True), Loop(name, rescaled=True, every=1, measures=[measure])
        training = Loop(name, rescaled=True).train
        times = side_by_side({"with": loop.optimizer.step, "plain": plain.optimizer.step, "training": training}, rounds)
        cost = statistics.median(added(times, "with", range(rounds)))
        print(f"{name}: a record of {measure:<15} {cost:8.3f} steps, 2 % at every {max(1, round(50 * cost)):>5}", flush=True)


def main() -> None:
    torch.set_num_threads(1)
    with flushed_denormals(), tempfile.TemporaryDirectory() as folder:
        show(at_the_default("mlp", 101, Path(folder)) + at_the_default("cnn", 21, Path(folder)))
        of_each_measure("mlp", 21)
        of_each_measure("cnn", 5)


if __name__ == "__main__":
    main()
