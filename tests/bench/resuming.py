"""Runs that are stopped and continued: what is compared, and what stops them."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import torch

from swr.bench import training
from swr.bench.experiments import RunConfig
from swr.bench.training import Epoch


class Stopped(Exception):
    pass


def rows(epochs: list[Epoch]) -> list[dict]:
    """Everything but the time, as text where not-a-number must equal itself."""
    return [{key: str(value) for key, value in asdict(epoch).items() if key != "seconds"} for epoch in epochs]


def undisturbed(config: RunConfig, folder: Path) -> list[dict]:
    """The rows of a run that nothing happens to, in this process, with as many threads as a worker has."""
    assert torch.get_num_threads() == 1
    return rows(training.run(config, folder / f"{config.identity}.pt"))


def stop_at(number: int) -> Callable[[Epoch], None]:
    """A report that ends the run after an epoch."""

    def report(epoch: Epoch) -> None:
        if epoch.epoch == number:
            raise Stopped

    return report
