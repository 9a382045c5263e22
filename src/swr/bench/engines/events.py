"""What an engine and the jobs room say to each other.

A run is *submitted*; whoever takes it up first *claims* it, so that no other process works on it, and asks for a go-ahead;
then it *reports* epochs until it is *done*, has *failed*, was *stopped*, or its process was *lost*. The claim lasts until
the jobs room *answers*, after it has written down the end.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from swr.bench.config import RunConfig
from swr.bench.training import Epoch
from swr.errors import SWRError

Task = Callable[["Job", Callable[[Epoch], None]], dict[str, Any]]
"""Trains one job, reporting every epoch, and returns the facts to store; a function of a module, so that it has a name."""


class EngineError(SWRError):
    """The engine cannot run anything."""


@dataclass(frozen=True)
class Job:
    """A run and where it executes."""

    config: RunConfig
    folder: Path
    """holds the run's checkpoint and its claim"""
    data: Path | None = None
    device: str = "cpu"

    @property
    def checkpoint(self) -> Path:
        """The file that the run continues from."""
        return self.folder / "checkpoint.pt"


@dataclass(frozen=True)
class Claimed:
    """The run is ours and waits for an answer: True to begin, False to leave it alone."""

    run: str


@dataclass(frozen=True)
class Busy:
    """Another process works on the run."""

    run: str


@dataclass(frozen=True)
class Reported:
    """An epoch of the run has ended (again, when it was in the checkpoint)."""

    run: str
    epoch: Epoch


@dataclass(frozen=True)
class Done:
    """The run has ended well; waits for an answer: True when that is recorded."""

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
    """The process that had the run ended without a word, by a signal or for lack of memory."""

    run: str
    reason: str


@dataclass(frozen=True)
class Note:
    """A message for the reader, from a run."""

    run: str
    text: str


Event = Claimed | Busy | Reported | Done | Failed | Stopped | Lost | Note


class Engine(Protocol):
    """Executes jobs somewhere."""

    @property
    def free(self) -> int:
        """How many more jobs could begin now."""

    def submit(self, job: Job) -> None:
        """Hand over a job; only when something is free."""

    def poll(self, timeout: float) -> list[Event]:
        """What has happened, after waiting for at most ``timeout`` seconds."""

    def answer(self, run: str, yes: bool) -> None:
        """Reply to Claimed, Done or Failed."""

    def stop(self) -> None:
        """Ask every run to stop at the end of its epoch."""

    def close(self) -> None:
        """End everything at once; what was checkpointed is kept."""
