"""The record of one epoch."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Epoch:
    """What was measured in one epoch of a run."""

    epoch: int
    """from 1, counted over all stages"""
    stage: int
    """from 0"""
    total: int
    """epochs of the whole run"""
    train_loss: float
    """mean cross-entropy (squared error; of an agent, the loss of its values) over the epoch's batches, each before its update,
    without penalties"""
    train_accuracy: float
    """over the same batches; not-a-number in a regression; of an agent, the mean return while it learned, as a part of the
    largest"""
    test_accuracy: float
    """on what a stream shows in this stage; not-a-number where it has no test set"""
    validation_accuracy: float | None
    norms: dict[str, float]
    """Frobenius norm of each layer's weight at the end of the epoch"""
    seconds: float
    """the only field that differs between two runs of one configuration; 0: another run trained this epoch for it, since both
    have the same first stage"""
    measures: dict[str, float] = field(default_factory=dict)
    """what the experiment measures in addition, by name: averages over a stream so far; elsewhere, at the first epoch of every
    stage but the first, ``test_accuracy_at_start``: after the method was told of the new task, before any step"""
