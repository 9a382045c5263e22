"""What a run is judged by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FIRST = "first tenth of tasks"
LAST = "last tenth of tasks"
"""averages at the two ends of a stream: what falls between them was lost"""

AT_START = "test_accuracy_at_start"
"""the test accuracy after the method was told of a new stage, before its first step"""


@dataclass(frozen=True)
class Metric:
    """The number by which runs are compared."""

    name: str
    """as tables write it; the measure of an epoch that holds it, if it is an average over tasks"""
    short: str
    """as a line of progress writes it"""
    axis: str
    """of one epoch, as a chart writes it"""
    field: Literal["test_accuracy", "train_accuracy", "train_loss"]
    """of an :class:`~swr.bench.training.Epoch`: the value of this epoch alone"""
    online: bool = False
    """averaged over the tasks of a stream"""
    lower: bool = False
    """the smaller the better"""


TEST = Metric("test accuracy", "test", "Test accuracy", "test_accuracy")
ACCURACY = Metric("average online accuracy", "online", "Online accuracy", "train_accuracy", online=True)
RETURN = Metric("average return / 500", "return", "Return / 500", "train_accuracy", online=True)
"""of an agent while it learns, as a part of the largest return that there is"""
ERROR = Metric("average squared error", "error", "Squared error", "train_loss", online=True, lower=True)
