"""What data each stage may see: from a configuration and a dataset to lists of training examples.

With n training examples in a random order of the seed and K stages,

    single              one stage with all of them
    continued           K stages, each with all of them
    warm-start          the first n/2, then all
    continual-full      K chunks; stage k sees chunks 1 … k
    continual-limited   K chunks; stage k sees chunk k only

and the streams of :mod:`swr.bench.streams`, one task a stage. Chunks differ by at most one example. A run tells its method of
a new task between two stages (where the data changes, but for ``continued``) and never before the first.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor

from swr.bench import tasks
from swr.bench.config import RunConfig
from swr.bench.data import Dataset, Split, hold_out, with_label_noise
from swr.bench.seeds import stream
from swr.bench.streams import STREAMS
from swr.errors import OptionError


@dataclass(frozen=True, eq=False)
class Stage:
    """Some epochs on some of the training examples."""

    indices: Tensor
    """int64, sorted, into the training split"""
    epochs: int


@dataclass(frozen=True, eq=False)
class Material:
    """A dataset made ready for one run."""

    train: Split
    """what is left of the training split, with label noise"""
    validation: Split | None
    """what was held out, clean"""
    test: Split
    stages: tuple[Stage, ...]


def prepare(config: RunConfig, dataset: Dataset) -> Material:
    """Hold out, add noise, divide into stages, in this order, each with random numbers of its own."""
    train, validation = dataset.train, None
    if config.validation:
        train, validation = hold_out(train, config.validation, stream(config.seed, "validation"))
    if config.label_noise:
        train = with_label_noise(train, config.label_noise, stream(config.seed, "label noise"))
    if config.scenario in STREAMS:
        shown = tasks.examples(config, train, dataset.classes)
        stages = tuple(Stage(indices, n) for indices, n in zip(shown, config.epochs, strict=True))
    else:
        stages = divide(config.scenario, len(train), config.epochs, stream(config.seed, "chunks"))
    return Material(train, validation, dataset.test, stages[-1:] if config.cold else stages)


def divide(scenario: str, count: int, epochs: tuple[int, ...], generator: Generator) -> tuple[Stage, ...]:
    """The stages of a scenario.

    count: training examples.
    epochs: of each stage; as many stages as there are.
    """
    if scenario in ("single", "continued"):
        return tuple(Stage(torch.arange(count), n) for n in epochs)
    if count < len(epochs):
        raise OptionError(f"{count} training examples cannot be divided among {len(epochs)} stages.")
    order = torch.randperm(count, generator=generator)
    chunks = torch.tensor_split(order, len(epochs))
    limited = scenario == "continual-limited"
    seen = [chunk if limited else torch.cat(chunks[: k + 1]) for k, chunk in enumerate(chunks)]
    return tuple(Stage(indices.sort().values, n) for indices, n in zip(seen, epochs, strict=True))


def facts(config: RunConfig, dataset: Dataset) -> dict[str, Any]:
    """What was drawn at random for a run, as plain data: enough to tell whether two runs saw the same examples."""
    material = prepare(config, dataset)
    return {
        "dataset": dataset.name,
        "train": len(material.train),
        "validation": 0 if material.validation is None else len(material.validation),
        "test": len(material.test),
        "labels": _digest(material.train.labels),
        "stages": [
            {"examples": len(stage.indices), "epochs": stage.epochs, "indices": _digest(stage.indices)}
            for stage in material.stages
        ],
    }


def _digest(tensor: Tensor) -> str:
    return hashlib.sha256(tensor.contiguous().numpy().tobytes()).hexdigest()[:16]
