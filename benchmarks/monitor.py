"""What a monitor costs at its default interval: ratios measured side by side in one run, on one thread.

    python benchmarks/monitor.py

One turn is as many training steps as lie between two records (forward, backward, a fused Adam step on batches of 256 that lie
ready), so that every turn with the monitor has one record in it. The rows go to a CSV file. Below, what one record of each
measure takes in training steps; from it follows the interval at which it costs 2 %.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable
from itertools import cycle
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

import swr
from swr.bench import models
from swr.bench.process import flushed_denormals
from swr.diagnostics import Monitor
from swr.diagnostics.measures import MEASURES
from timing import Row, ratio, show, side_by_side

BATCH, INTERVAL = 256, 100
SHAPES = {"mlp": (1, 28, 28), "cnn": (3, 32, 32)}


def network(name: str) -> tuple[nn.Module, torch.optim.Optimizer, swr.SoftWeightRescaling, Callable[[], None]]:
    """A model, its optimizer, a rescaler, and one training step."""
    torch.manual_seed(0)
    shape = SHAPES[name]
    model = models.build(name, shape, 10)
    layout = torch.channels_last if name == "cnn" else torch.contiguous_format
    ready = [(torch.randn(BATCH, *shape).contiguous(memory_format=layout), torch.randint(10, (BATCH,))) for _ in range(16)]
    batches = cycle(ready)
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    rescaler = swr.SoftWeightRescaling(model, ready[0][0][:2])

    def step() -> None:
        inputs, labels = next(batches)
        optimizer.zero_grad()
        F.cross_entropy(model(inputs), labels).backward()
        optimizer.step()

    return model, optimizer, rescaler, step


def times(step: Callable[[], None], count: int) -> Callable[[], None]:
    def turn() -> None:
        for _ in range(count):
            step()

    return turn


def at_the_default(name: str, rounds: int, folder: Path) -> list[Row]:
    """Training with the default monitor over training without; first plain, then with SWR on both sides and its limits."""
    rows = []
    for rescaled in (False, True):
        turns: dict[str, Callable[[], object]] = {}
        for monitored in (True, False):
            model, optimizer, rescaler, step = network(name)
            if rescaled:
                rescaler.attach(optimizer)
            if monitored:
                path = folder / f"{name}-{rescaled}.csv"
                monitor = Monitor(model, anchors=rescaler if rescaled else None, to=path)
                monitor.attach(optimizer)
            turns["with" if monitored else "without"] = times(step, INTERVAL)
        measured = side_by_side(turns, rounds)
        assert len(monitor.rows) == rounds + 2, "every turn has one record, after that of step 0"
        cost = "training with SWR and a monitor / with SWR" if rescaled else "training with a monitor / without"
        rows.append((name, cost, ratio(measured, "with", "without"), "<= 1.02"))
        bare = statistics.median(measured["without"]) / INTERVAL
        print(f"{name}: {bare * 1e6:.0f} us a step {'with SWR ' * rescaled}without a monitor", flush=True)
    return rows


def of_each_measure(name: str, rounds: int) -> None:
    """One record of each measure, in training steps."""
    for measure in MEASURES:
        model, optimizer, rescaler, step = network(name)
        other = network(name)[3]
        shape = SHAPES[name]
        batch = torch.randn(BATCH, *shape), torch.randint(10, (BATCH,))
        monitor = Monitor(model, every=1, measures=[measure], anchors=rescaler, batch=batch, loss_fn=F.cross_entropy)
        monitor.attach(optimizer)
        measured = side_by_side({"with": step, "without": other}, rounds)
        cost = statistics.median(a / b - 1 for a, b in zip(measured["with"], measured["without"], strict=True))
        print(f"{name}: a record of {measure:<15} {cost:8.3f} steps, 2 % at every {max(1, round(50 * cost)):>5}", flush=True)


def main() -> None:
    torch.set_num_threads(1)
    with flushed_denormals(), tempfile.TemporaryDirectory() as folder:
        show(at_the_default("mlp", 41, Path(folder)) + at_the_default("cnn", 7, Path(folder)))
        of_each_measure("mlp", 31)
        of_each_measure("cnn", 5)


if __name__ == "__main__":
    main()
