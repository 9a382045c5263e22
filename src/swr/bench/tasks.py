"""What each task of a stream shows: which examples, in which order of pixels, under which labels, with which outputs.

Everything is a function of the run's seed, the task's number and the data: runs of one seed see the same stream whatever their
method, and a run that goes on after an interruption finds its task again without having stored it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from swr.bench import bits
from swr.bench.config import RunConfig
from swr.bench.data import Split
from swr.bench.feed import Feed
from swr.bench.seeds import stream
from swr.errors import OptionError

HARD, EASY = 5, 1
"""classes of the two kinds of tasks of `five-plus-one`"""


@dataclass(frozen=True, eq=False)
class View:
    """How a task shows a split; without arguments, as it is."""

    pixels: Tensor | None = None
    """the order of the places of an image, the same in every channel"""
    labels: Tensor | None = None
    """of all examples, in place of the split's"""
    inputs: Tensor | None = None
    """of all examples, in place of the split's"""
    hidden: Tensor | None = None
    """classes whose outputs do not count"""

    def batch(self, feed: Feed, index: Tensor, *, reuse: bool = False) -> tuple[Tensor, Tensor]:
        """Inputs and labels at these indices; ``reuse`` as in :meth:`Feed.batch`."""
        if self.inputs is not None and self.labels is not None:
            return self.inputs.index_select(0, index), self.labels.index_select(0, index)
        inputs, labels = feed.batch(index, reuse=reuse)
        if self.pixels is not None:
            inputs = inputs.flatten(2).index_select(2, self.pixels).view(inputs.shape)
        return inputs, labels if self.labels is None else self.labels.index_select(0, index)

    def outputs(self, outputs: Tensor) -> Tensor:
        """The outputs that count, the others at -∞."""
        return outputs if self.hidden is None else outputs.index_fill(1, self.hidden, -torch.inf)

    def to(self, device: torch.device) -> View:
        """The same on a device."""
        return View(*(None if tensor is None else tensor.to(device) for tensor in vars(self).values()))


@dataclass(frozen=True, eq=False)
class Task:
    """What a run sees from one moment to the next at which the data changes."""

    train: View = field(default_factory=View)
    test: View = field(default_factory=View)
    tested: Tensor | None = None
    """the test examples that belong to the task, maybe none; None: all, as they are"""

    def to(self, device: torch.device) -> Task:
        """The same on a device."""
        return Task(self.train.to(device), self.test.to(device), None if self.tested is None else self.tested.to(device))


def examples(config: RunConfig, train: Split, classes: int) -> list[Tensor]:
    """The training examples of each task, as sorted indices.

    config: whose scenario is a stream.
    classes: of the dataset.
    """
    tasks = len(config.epochs)
    match config.scenario:
        case "five-plus-one" | "class-incremental":
            return [_of_classes(train.labels, _classes(config, task, classes)) for task in range(tasks)]
        case "bit-flipping":
            return [torch.arange(config.examples or bits.EXAMPLES)] * tasks
        case "label-permutation" if config.examples is not None:
            return [_drawn(config, train, f"label-permutation examples {task}") for task in range(tasks)]
        case _:
            return [_drawn(config, train, f"{config.scenario} examples")] * tasks


def task(config: RunConfig, number: int, train: Split, test: Split, classes: int) -> Task:
    """A task of a stream.

    number: from 0.
    classes: of the dataset.
    """
    generator = stream(config.seed, f"{config.scenario} {number}")
    everything, nothing = torch.arange(len(test)), torch.arange(0)
    match config.scenario:
        case "permuted-pixels":
            order = torch.randperm(train.images.shape[2] * train.images.shape[3], generator=generator)
            return Task(View(pixels=order), View(pixels=order), everything)
        case "random-labels":
            chosen = _drawn(config, train, "random-labels examples")
            labels = train.labels.clone()
            labels[chosen] = train.labels[chosen[torch.randperm(len(chosen), generator=generator)]]
            return Task(View(labels=labels), View(), nothing)
        case "label-permutation":
            names = torch.randperm(classes, generator=generator)
            return Task(View(labels=names[train.labels]), View(labels=names[test.labels]), everything)
        case "five-plus-one":
            return Task(tested=_of_classes(test.labels, _classes(config, number, classes)))
        case "class-incremental":
            seen = _classes(config, number, classes)
            view = View(hidden=torch.tensor([c for c in range(classes) if c not in set(seen.tolist())], dtype=torch.long))
            return Task(view, view, _of_classes(test.labels, seen))
        case "bit-flipping":
            inputs = bits.inputs(config.seed, number, config.examples or bits.EXAMPLES)
            targets = bits.target(config.seed)(inputs)
            return Task(View(inputs=inputs.view(-1, 1, 1, inputs.shape[1]), labels=targets), View(), nothing)
        case _:
            raise OptionError(f"{config.scenario} is not a stream.")


def _drawn(config: RunConfig, train: Split, purpose: str) -> Tensor:
    """As many examples as a task has, drawn without replacement, sorted."""
    if config.examples is None:
        return torch.arange(len(train))
    if config.examples > len(train):
        raise OptionError(f"{config.scenario} wants {config.examples} examples a task, and there are {len(train)} only.")
    return torch.randperm(len(train), generator=stream(config.seed, purpose))[: config.examples].sort().values


def _classes(config: RunConfig, task: int, classes: int) -> Tensor:
    """The classes of a task, in an order of the seed: new ones each time, or all up to now."""
    order, tasks = torch.randperm(classes, generator=stream(config.seed, f"{config.scenario} classes")), len(config.epochs)
    if config.scenario == "class-incremental":
        if classes < tasks:
            raise OptionError(f"{classes} classes cannot be added in {tasks} stages: each needs one more.")
        return torch.cat(torch.tensor_split(order, tasks)[: task + 1])
    needed = sum(_kind(one) for one in range(tasks))
    if classes < needed:
        raise OptionError(f"{tasks} tasks of five-plus-one need {needed} classes, and there are {classes}: use cifar100.")
    start = sum(_kind(one) for one in range(task))
    return order[start : start + _kind(task)]


def _kind(task: int) -> int:
    return EASY if task % 2 else HARD


def _of_classes(labels: Tensor, classes: Tensor) -> Tensor:
    return torch.isin(labels, classes).nonzero().flatten()
