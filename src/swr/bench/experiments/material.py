"""A dataset prepared for one run: how much of it is used, what is held out, which labels are noisy, what each stage sees.

The method's ``new_task`` is called between two stages, where the data changes (in ``continued`` it does not), and never before
the first.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from swr.bench.data import Dataset, Split, hold_out, with_label_noise
from swr.bench.experiments.config import RunConfig
from swr.bench.experiments.seeds import generator
from swr.errors import OptionError


@dataclass(frozen=True, eq=False)
class Stage:
    """Some epochs on some of the training examples."""

    indices: Tensor
    """int64, sorted, into the training split"""
    epochs: int


@dataclass(frozen=True, eq=False)
class Material:
    """A dataset prepared for one run."""

    train: Split
    """what is left of the training split, with label noise"""
    validation: Split | None
    """what was held out, clean"""
    test: Split
    stages: tuple[Stage, ...]


def prepare(config: RunConfig, dataset: Dataset) -> Material:
    """Take the first examples, hold out, add noise, divide into stages, in this order, each with its own random generator."""
    train, validation = dataset.train, None
    if config.examples is not None and not config.setting.draws:
        train = first(train, config.examples)
    if config.validation:
        train, validation = hold_out(train, config.validation, generator(config.seed, "validation"))
    if config.label_noise:
        train = with_label_noise(train, config.label_noise, generator(config.seed, "label noise"))
    examples = config.setting.examples(config, train, dataset.classes)
    stages = tuple(Stage(indices, epochs) for indices, epochs in zip(examples, config.epochs, strict=True))
    return Material(train, validation, dataset.test, stages[-1:] if config.cold else stages)


def first(split: Split, count: int) -> Split:
    """The first examples of a split: the same for every seed, and not stratified.

    Every class of the split must be among them, which is not so if the files are in the order of the classes.
    """
    if count > len(split):
        raise OptionError(f"the first {count} training examples were asked for, and there are only {len(split)}.")
    labels = split.labels[:count]
    found, classes = len(labels.unique()), len(split.labels.unique())
    if found < classes:
        raise OptionError(f"the first {count} training examples have {found} of the {classes} classes only: use more of them.")
    return Split(split.images[:count], labels)


def facts(config: RunConfig, dataset: Dataset) -> dict[str, Any]:
    """What was drawn at random for a run, as plain data: enough to tell whether two runs saw the same examples."""
    if config.setting.interactive:
        return {"dataset": dataset.name, "stages": [{"steps": config.examples, "epochs": epochs} for epochs in config.epochs]}
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
