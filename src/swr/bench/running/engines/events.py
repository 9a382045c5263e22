"""The messages between an engine and :mod:`swr.bench.running.jobs`.

A run is *submitted*; the first process that takes it *claims* it, so that no other executes it, and waits for an answer; then
it is *placed* on a node, where there are several, and *reports* epochs until it is *done*, has *failed*, was *stopped*, or its
process was *lost*. The claim is held until the end of the run is recorded and *answered*.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from swr.bench.experiments import RunConfig
from swr.bench.training import Epoch
from swr.errors import SWRError

Task = Callable[["Job", Callable[[Epoch], None]], dict[str, Any]]
"""Trains one job, reporting every epoch, and returns the facts to store; a function of a module, so that it can be pickled."""


class EngineError(SWRError):
    """The engine cannot execute anything."""


@dataclass(frozen=True)
class Job:
    """A run, and where it is executed."""

    config: RunConfig
    folder: Path
    """holds the run's checkpoint and its claim"""
    data: Path | None = None
    device: str = "cpu"
    first_stage: Path | None = None
    """the file of the first stage that it shares with other runs; None: it shares none"""

    @property
    def checkpoint(self) -> Path:
        """The file that the run continues from."""
        return self.folder / "checkpoint.pt"


@dataclass(frozen=True)
class Claimed:
    """The run is claimed and waits for an answer: True to start, False to release it."""

    run: str


@dataclass(frozen=True)
class Busy:
    """Another process executes the run."""

    run: str


@dataclass(frozen=True)
class Placed:
    """The run starts or continues on a node of a cluster."""

    run: str
    node: str
    """the host's name"""


@dataclass(frozen=True)
class Reported:
    """An epoch of the run has ended (again, when it was in the checkpoint)."""

    run: str
    epoch: Epoch


@dataclass(frozen=True)
class Done:
    """The run is done; waits for an answer: True when that is recorded."""

    run: str
    facts: dict[str, Any]


@dataclass(frozen=True)
class Failed:
    """The run raised an error; waits for an answer."""

    run: str
    error: str
    """the traceback, the error itself on its last line"""


@dataclass(frozen=True)
class Stopped:
    """The run was asked to stop and did, at the end of an epoch."""

    run: str


@dataclass(frozen=True)
class Lost:
    """The process that executed the run died, by a signal or for lack of memory."""

    run: str
    reason: str


@dataclass(frozen=True)
class Note:
    """A message for the user, from a run."""

    run: str
    text: str


Event = Claimed | Busy | Placed | Reported | Done | Failed | Stopped | Lost | Note


class Engine(Protocol):
    """Executes jobs."""

    @property
    def free(self) -> int:
        """How many more jobs can start now."""

    def submit(self, job: Job) -> None:
        """Submit a job; only if something is free."""

    def poll(self, timeout: float) -> list[Event]:
        """What has happened, after waiting for at most ``timeout`` seconds."""

    def answer(self, run: str, yes: bool) -> None:
        """Reply to Claimed, Done or Failed."""

    def stop(self) -> None:
        """Ask every run to stop at the end of its epoch."""

    def close(self) -> None:
        """End everything now; checkpoints are kept."""
