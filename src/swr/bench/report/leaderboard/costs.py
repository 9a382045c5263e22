"""What a method costs, as it was measured once and recorded beside this file.

    python benchmarks/methods.py --record      measures all rows of the leaderboard again and writes step_costs.csv

A step is one of the paper's MLP with a batch of 256 on one thread, against the same without the method, side by side in one
process. Memory is what the method's state holds after a few steps and a new task, in units of the model's parameters.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

FIELDS = ("method", "step", "memory", "torch", "processor", "date")
FILE = "step_costs.csv"


@dataclass(frozen=True)
class Cost:
    """Of one method."""

    step: float
    """a step with it / without"""
    memory: float
    """what it keeps / the parameters"""


def costs() -> dict[str, Cost]:
    """By method, those that were measured."""
    return {row["method"]: Cost(float(row["step"]), float(row["memory"])) for row in _rows()}


def origins() -> list[str]:
    """Where they were measured: torch, processor and date, each once.

    >>> len(origins()) <= len(costs())
    True
    """
    return list(dict.fromkeys(f"torch {row['torch']}, {row['processor']}, {row['date']}" for row in _rows()))


def record(found: Mapping[str, Cost], torch: str, processor: str, date: str, path: Path | None = None) -> Path:
    """Write the file.

    Args:
        found: By method.
        path: By default the recorded file of the package.
    """
    path = path or Path(str(resources.files(__package__).joinpath(FILE)))
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(FIELDS)
        writer.writerows((name, f"{one.step:.3f}", f"{one.memory:.3f}", torch, processor, date) for name, one in found.items())
    return path


def _rows() -> list[dict[str, str]]:
    file = resources.files(__package__).joinpath(FILE)
    return list(csv.DictReader(file.read_text(encoding="utf-8").splitlines()))
