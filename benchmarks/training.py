"""What an epoch costs: ratios measured side by side in one run, on one thread.

    SWR_DATA=FOLDER python benchmarks/training.py

The lower bound is forward, backward and a fused Adam step on batches that lie ready, and nothing else; ours gathers the batches
in a random order, counts losses and right answers, and calls the method. The usual way is a Dataset of single images with a
DataLoader, the default Adam and ``loss.item()``. Both sides go through a whole epoch of MNIST, a few batches in turn, so that
the batches come from memory and not from a cache. Without SWR_DATA the images are random numbers of the same shape.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable
from itertools import cycle

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as TorchDataset

from swr.bench import experiments
from swr.bench.data import Dataset, Split, load
from swr.bench.experiments import RunConfig
from swr.bench.training.loop import EVALUATION_BATCH, Training
from swr.bench.training.process import flushed_denormals, keep_memory
from timing import Row, ratio, show, side_by_side


class Images(TorchDataset[tuple[Tensor, int]]):
    """The usual way: one image at a time, converted and normalised when it is asked for."""

    def __init__(self, split: Split, dataset: Dataset, indices: Tensor) -> None:
        self.images, self.labels = split.images[indices], split.labels[indices].tolist()
        self.mean = torch.tensor(dataset.mean).view(-1, 1, 1)
        self.std = torch.tensor(dataset.std).view(-1, 1, 1)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return (self.images[index].float().div(255) - self.mean) / self.std, self.labels[index]


def dataset_of(name: str) -> Dataset:
    """The real one where SWR_DATA points to it, else random numbers of the same shape."""
    if os.environ.get("SWR_DATA"):
        return load(name, download=False)
    shape, train = ((1, 28, 28), 60_000) if name == "mnist" else ((3, 32, 32), 50_000)
    splits = [Split(torch.randint(256, (n, *shape), dtype=torch.uint8), torch.randint(10, (n,))) for n in (train, 10_000)]
    return Dataset(name, 10, splits[0], splits[1], (0.5,) * shape[0], (0.25,) * shape[0])


def ours(config: RunConfig, dataset: Dataset, indices: Tensor, part: int) -> Callable[[], object]:
    training = Training(config, dataset)
    parts = cycle(torch.split(indices, part * config.batch_size))
    return lambda: [float(value) for value in training.pass_over(next(parts))]


def bare(config: RunConfig, dataset: Dataset, indices: Tensor, part: int) -> Callable[[], object]:
    training = Training(config, dataset)
    training.method.close()
    model = training.model
    optimizer = torch.optim.Adam(model.parameters(), lr=config.lr, fused=True)
    parameters = list(model.parameters())
    layout = torch.channels_last if experiments.find_column(config.column).model != "mlp" else torch.contiguous_format
    ready = [training.train.batch(index) for index in torch.split(indices, config.batch_size)]
    ready = [(x.contiguous(memory_format=layout), y) for x, y in ready]
    parts = cycle([ready[i : i + part] for i in range(0, len(ready), part)])

    def some_batches() -> None:
        model.train()
        for inputs, labels in next(parts):
            loss = F.cross_entropy(model(inputs), labels)
            for p in parameters:
                p.grad = None
            loss.backward()
            optimizer.step()

    return some_batches


def usual(config: RunConfig, dataset: Dataset, indices: Tensor) -> Callable[[], object]:
    training = Training(config, dataset)
    model: nn.Module = training.model.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    optimizer = torch.optim.Adam(model.parameters(), lr=config.lr)
    loader = DataLoader(Images(dataset.train, dataset, indices), config.batch_size, shuffle=True)

    def epoch() -> None:
        model.train()
        total, correct = 0.0, 0
        for inputs, labels in loader:
            optimizer.zero_grad()
            outputs = model(inputs)
            loss = F.cross_entropy(outputs, labels)
            loss.backward()
            optimizer.step()
            total += loss.item() * len(labels)
            correct += int((outputs.argmax(1) == labels).sum())

    return epoch


def evaluation(config: RunConfig, dataset: Dataset) -> tuple[Callable[[], object], Callable[[], object]]:
    """Our test accuracy, and the bare forward passes."""
    training = Training(config, dataset)
    ready = list(training.test.chunks(EVALUATION_BATCH))

    def forward() -> None:
        with torch.inference_mode():
            for inputs, _ in ready:
                training.model(inputs)

    return lambda: float(training.accuracy(training.test)), forward


def memory(column: str) -> Row:
    """A step with memory that goes back to the system, as it does by itself, then with memory that stays; for good."""
    dataset = dataset_of(experiments.find_column(column).dataset)
    (config,) = experiments.expand("generalization", columns=[column], methods=["vanilla"], seeds=1)
    some = ours(config, dataset, torch.arange(4 * config.batch_size), part=4)
    returned = side_by_side({"steps": some}, 8)["steps"]
    keep_memory()
    kept = side_by_side({"steps": some}, 8)["steps"]
    return column, "memory returned / kept", statistics.median(returned) / statistics.median(kept), ""


def measure(column: str, batches: int, part: int, rounds: int, bound: str) -> list[Row]:
    """Ratios for one column: ours and the bound take turns every ``part`` batches, and go through ``batches`` of them."""
    dataset = dataset_of(experiments.find_column(column).dataset)
    config, l2, _, rescaled = experiments.expand("generalization", columns=[column], seeds=1)
    indices = torch.randperm(len(dataset.train))[: batches * config.batch_size]
    some = indices[: part * config.batch_size]
    test, forward = evaluation(config, dataset)
    lower, plain = bare(config, dataset, indices, part), ours(config, dataset, indices, part)
    pairs = {
        ("epoch", "bare lower bound", "<= 1.05"): (plain, lower, rounds),
        ("epoch with L2", "bare lower bound", ""): (ours(l2, dataset, indices, part), lower, rounds),
        ("epoch with SWR", "bare lower bound", ""): (ours(rescaled, dataset, indices, part), lower, rounds),
        ("usual way", "epoch", bound): (usual(config, dataset, some), plain, rounds // 5),
        ("test accuracy", "bare forward", ""): (test, forward, 5),
    }
    rows = []
    for (above, below, limit), (one, other, turns) in pairs.items():
        times = side_by_side({"above": one, "below": other}, turns)
        rows.append((column, f"{above} / {below}", ratio(times, "above", "below"), limit))
        per = 1 if above == "test accuracy" else part
        a, b = (statistics.median(times[side]) / per * 1e6 for side in ("above", "below"))
        print(f"{column}: {above} {a:.0f} us, {below} {b:.0f} us {'in all' if per == 1 else 'a step'}", flush=True)
    return rows


def main() -> None:
    torch.set_num_threads(1)
    with flushed_denormals():
        rows = [memory("cifar10-cnn")]
        rows += measure("mnist-mlp", batches=234, part=26, rounds=135, bound=">= 2")
        rows += measure("cifar10-cnn", batches=20, part=2, rounds=30, bound="")
    show(rows)


if __name__ == "__main__":
    main()
