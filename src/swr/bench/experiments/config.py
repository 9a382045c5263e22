"""One run as plain data: everything its result depends on, and an identity computed from that."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from typing import Any, Literal, get_args

from swr import methods
from swr.bench.experiments.experiment import LRSchedule
from swr.bench.experiments.scenario import Scenario
from swr.bench.experiments.scenarios import find_scenario
from swr.bench.words import require
from swr.errors import OptionError

PROTOCOL = 1
"""part of every identity; raised when the loop changes what it computes, so that older results are not taken for new ones"""

Inputs = Literal["normalised", "raw"]
Precision = Literal["float32", "bf16"]

LATER = {"examples": None, "inputs": "normalised", "lr_schedule": "step", "clip": None, "precision": "float32"}
"""fields that older stores do not have; with these values they are not part of a run's identity"""


@dataclass(frozen=True)
class RunConfig:
    """A method on a column in an experiment, with one seed.

    >>> config = RunConfig("generalization", "digits-mlp", "swr", (("coefficient", 0.01),), seed=0)
    >>> config.label
    'generalization digits-mlp swr λ=0.01 seed 0'
    """

    experiment: str
    """``warm-start``, ``generalization``, …"""
    column: str
    """dataset and model, ``cifar10-cnn``"""
    method: str
    """a name of :func:`swr.methods.names`, or several with ``+`` between them"""
    hyper: tuple[tuple[str, float], ...] = ()
    """the method's hyper-parameters, sorted"""
    seed: int = 0
    """of everything random: initialisation, chunks, batches, noise, the method"""
    scenario: str = "single"
    """the name of a :class:`~swr.bench.experiments.scenario.Scenario`: which data each stage sees"""
    epochs: tuple[int, ...] = (200,)
    """of each stage"""
    cold: bool = False
    """a reference line: only the last stage, from scratch"""
    batch_size: int = 256
    lr: float = 1e-3
    lr_drops: tuple[int, ...] = ()
    """epochs, counted from 1 over all stages, at whose start the learning rate is multiplied by ``lr_factor``"""
    lr_factor: float = 0.1
    label_noise: float = 0.0
    """part of the training labels that is shuffled; validation and test labels are clean"""
    validation: float = 0.0
    """part of the training data that is held out"""
    examples: int | None = None
    """training examples that are used, the first ones of the training split; a stream that draws its own draws so many for each
    task. None: all that there are"""
    inputs: Inputs = "normalised"
    """per channel, to mean 0 and standard deviation 1 over the training images; ``raw``: from 0 to 1, unchanged"""
    lr_schedule: LRSchedule = "step"
    """over all steps of the run; ``step``: constant but for ``lr_drops``, which the others do not have"""
    clip: float | None = None
    """the largest norm of the gradient of loss and penalty, all parameters together; a larger one is scaled down to it"""
    precision: Precision = "float32"
    """of the passes through the network; ``bf16``: autocast to bfloat16; weights, their updates and the loss stay float32"""

    def __post_init__(self) -> None:
        methods.describe(self.method)
        object.__setattr__(self, "hyper", tuple(sorted((str(key), float(value)) for key, value in self.hyper)))
        object.__setattr__(self, "epochs", tuple(self.epochs))
        object.__setattr__(self, "lr_drops", tuple(self.lr_drops))
        scenario = self.setting
        require(self.seed >= 0, "seed", "at least 0", self.seed)
        require(bool(self.epochs) and all(n >= 1 for n in self.epochs), "epochs", "at least 1 in every stage", self.epochs)
        require(self.batch_size >= 1, "batch_size", "at least 1", self.batch_size)
        require(0 < self.lr < math.inf, "lr", "positive", self.lr)
        require(0 < self.lr_factor < math.inf, "lr_factor", "positive", self.lr_factor)
        require(0 <= self.label_noise <= 1, "label_noise", "in [0, 1]", self.label_noise)
        require(0 <= self.validation < 1, "validation", "in [0, 1)", self.validation)
        require(self.examples is None or self.examples >= 1, "examples", "at least 1, or None", self.examples)
        require(self.inputs in get_args(Inputs), "inputs", " or ".join(get_args(Inputs)), self.inputs)
        require(self.lr_schedule in get_args(LRSchedule), "lr_schedule", f"one of {get_args(LRSchedule)}", self.lr_schedule)
        require(self.precision in get_args(Precision), "precision", " or ".join(get_args(Precision)), self.precision)
        require(self.clip is None or 0 < self.clip < math.inf, "clip", "positive, or None", self.clip)
        if self.lr_drops and self.lr_schedule != "step":
            raise OptionError(
                f"lr_drops={self.lr_drops} belong to the schedule step, found {self.lr_schedule}: give one of them."
            )
        scenario.check(self)

    @property
    def setting(self) -> Scenario:
        """The scenario as an object."""
        return find_scenario(self.scenario)

    @property
    def total(self) -> int:
        """Epochs of the whole run."""
        return self.epochs[-1] if self.cold else sum(self.epochs)

    @property
    def line(self) -> str:
        """The row of a table it belongs to: the method, or ``cold`` for the reference from scratch."""
        return "cold" if self.cold else self.method

    @property
    def title(self) -> str:
        """The same, as a reader of the paper would write it."""
        title, _ = methods.describe(self.method)
        if self.method == self.setting.reference:
            return f"{title} (fresh network)"
        return f"{title} (cold start)" if self.cold else title

    @property
    def hyper_text(self) -> str:
        """The hyper-parameters with the paper's symbols: ``λ=0.001``."""
        _, symbols = methods.describe(self.method)
        return " ".join(f"{symbols.get(key, key)}={value:g}" for key, value in self.hyper)

    @property
    def label(self) -> str:
        """The run in words."""
        cold = "cold" if self.cold else ""
        return " ".join(filter(None, [self.experiment, self.column, self.method, cold, self.hyper_text, f"seed {self.seed}"]))

    @cached_property
    def identity(self) -> str:
        """16 hexadecimal digits: the start of the SHA-256 of the whole configuration as canonical JSON."""
        text = json.dumps({**self.to_dict(), "protocol": PROTOCOL}, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def first_stage(self) -> str | None:
        """The identity of what is computed before the second stage, or None if the method may have a part in it.

        It is that of the same run without the method, so that runs whose methods act only when a new task begins share it:

        >>> config = RunConfig("warm-start", "digits-mlp", "head-reset", scenario="warm-start", epochs=(60, 60))
        >>> config.first_stage == replace(config, method="vanilla").identity
        True

        Everything else counts, the length of later stages too: learning rates and chunks may depend on it.
        """
        kind = methods.REGISTRY.get(self.method)
        if kind is None or not kind.only_at_new_task or len(self.epochs) == 1 or self.cold or self.setting.interactive:
            return None
        return replace(self, method="vanilla", hyper=()).identity

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        data: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return {key: value for key, value in data.items() if key not in LATER or value != LATER[key]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RunConfig:
        """The reverse of :meth:`to_dict`."""
        known = {field.name for field in fields(cls)}
        if other := sorted(set(data) ^ known - (set(LATER) - set(data))):
            what = "is unknown" if other[0] in data else "is missing"
            raise OptionError(f"this is not the configuration of a run: {other[0]!r} {what}.")
        values = {**LATER, **data}
        values["hyper"] = tuple((key, value) for key, value in values["hyper"])
        return cls(**values)
