"""The Ray task that executes one run: a generator of messages to the driver.

It trains in a thread and sends what happens: first where it *arrived*, then epochs and notes, now and then its checkpoint
(*saved*), at last how it ended. A message costs Ray and the driver about a millisecond each, so they are sent in batches: what
cannot wait, the end and a checkpoint, at once with all before it, the rest ``PAUSE`` seconds after the last batch.
"""

from __future__ import annotations

import os
import platform
import queue
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy
import ray
import torch

import swr
from swr.bench.data.places import cache_folder
from swr.bench.experiments import find_column
from swr.bench.files import replacing
from swr.bench.running.engines import claim
from swr.bench.running.engines.events import Done, Event, Failed, Job, Reported, Stopped, Task
from swr.bench.running.engines.ray_data import obtain
from swr.bench.running.engines.worker import perform, train_on
from swr.bench.training import Epoch
from swr.bench.training.process import keep_memory


@dataclass(frozen=True)
class Order:
    """What a worker needs to know to execute a run."""

    job: Job
    home: Any
    """the actor on the driver's machine, see :class:`~swr.bench.running.engines.ray_home.Home`"""
    versions: dict[str, str]
    """the driver's"""
    threads: int
    checkpoints: Path | None
    """a folder that all machines share; without one the checkpoint is sent to the driver"""
    task: Task | None
    """in place of training"""


@dataclass(frozen=True)
class Arrived:
    """The run is on this node."""

    host: str
    node: str
    """Ray's id of it"""
    pid: int


@dataclass(frozen=True)
class Refused:
    """The node cannot execute runs of this driver."""

    host: str
    node: str
    reason: str


@dataclass(frozen=True)
class Saved:
    """The newest checkpoint, its file as bytes."""

    content: Any
    first_stage: bool = False
    """it is the end of the first stage, for other runs"""


Message = Event | Arrived | Refused | Saved


PAUSE = 0.5  # seconds between two batches of epochs: the driver's view need not be more current
LOOK = 0.1  # seconds between two looks whether to stop, however short an epoch is
Ended = Done | Failed | Stopped


def versions() -> dict[str, str]:
    """What must be the same everywhere for results to be."""
    return {"Python": platform.python_version(), "torch": str(torch.__version__), "swr": swr.__version__}


def difference(ours: dict[str, str], theirs: dict[str, str], host: str) -> str | None:
    """One phrase on versions that differ.

    >>> difference({"torch": "2.13.0"}, {"torch": "2.6.0"}, "node7")
    'node7 has torch 2.6.0, the driver 2.13.0'
    """
    found = [
        f"{name} {theirs.get(name, 'none')}, the driver {value}" for name, value in ours.items() if theirs.get(name) != value
    ]
    return f"{host} has {'; '.join(found)}" if found else None


def stream(order: Order, checkpoint: Any, first_stage: Any = None) -> Iterator[list[Message]]:
    """Execute a run; yields what has happened, in order.

    Args:
        order: Which, and how.
        checkpoint: The bytes of the file to continue from, or None.
        first_stage: The bytes of the first stage that it shares with other runs, or None.
    """
    host, node = platform.node(), ray.get_runtime_context().get_node_id()
    if reason := difference(order.versions, versions(), host):
        yield [Refused(host, node, reason)]
        return
    yield [Arrived(host, node, os.getpid())]
    with _folder(order) as folder:
        shared = None if order.job.first_stage is None else folder / "first-stage.pt"
        job = replace(order.job, folder=folder, first_stage=shared)
        for path, content in ((job.checkpoint, checkpoint), (shared, first_stage)):
            if path is not None and content is not None:
                with replacing(path) as [file]:
                    file.write(memoryview(content))
        outbox = Outbox()
        thread = threading.Thread(target=_train, args=(order, job, outbox.put), daemon=True)
        thread.start()
        while True:
            batch = outbox.take()
            yield batch
            if isinstance(batch[-1], Ended):
                break
        thread.join()


class Outbox:
    """Gathers the messages of the thread that trains, which never waits.

    Args:
        pause: The least number of seconds between two batches, unless something is urgent.
    """

    def __init__(self, pause: float = PAUSE) -> None:
        self._pause, self._last = pause, time.monotonic()
        self._messages: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._urgent = threading.Event()

    def put(self, message: Message) -> None:
        """Add a message."""
        self._messages.put(message)
        if isinstance(message, Ended | Saved):
            self._urgent.set()

    def take(self) -> list[Message]:
        """All messages so far, at least one and nothing after the end; waits for the pause to pass or something urgent."""
        self._urgent.wait(max(0.0, self._last + self._pause - time.monotonic()))
        self._urgent.clear()
        batch = [self._messages.get()]
        while not isinstance(batch[-1], Ended) and not self._messages.empty():
            batch.append(self._messages.get())
        self._last = time.monotonic()
        return batch


def _train(order: Order, job: Job, put: Callable[[Message], None]) -> None:
    try:
        torch.set_num_threads(order.threads)
        keep_memory()
        saved = _Changes(job.checkpoint)
        kept = None if job.first_stage is None else _Changes(job.first_stage)

        def send(event: Event) -> None:
            if isinstance(event, Reported) and kept is not None and kept.changed():  # first: others start after its last epoch
                put(Saved(numpy.fromfile(kept.path, dtype=numpy.uint8), first_stage=True))
            put(event)
            if isinstance(event, Reported) and event.epoch.epoch < event.epoch.total:
                hand_over()

        def hand_over() -> None:
            if order.checkpoints is None and saved.changed():
                put(Saved(numpy.fromfile(job.checkpoint, dtype=numpy.uint8)))

        ended = perform(job, order.task or partial(_train_here, order.home), send, _Stopping(order.home))
        if not isinstance(ended, Done):
            hand_over()
        put(ended)
    except BaseException:  # in a thread it would be lost otherwise
        put(Failed(job.config.identity, traceback.format_exc()))


def _train_here(home: Any, job: Job, report: Callable[[Epoch], None]) -> dict[str, Any]:
    """Train with this machine's data, or the driver's."""
    name = find_column(job.config.column).dataset
    if name not in _fingerprints:
        _fingerprints[name] = ray.get(home.fingerprint.remote(name))
    found = obtain(name, job.data, _fingerprints[name], lambda: ray.get(home.dataset.remote(name)))
    return train_on(found, job, report)


_fingerprints: dict[str, str] = {}
"""of the driver's datasets; a process works for one driver only"""


@contextmanager
def _folder(order: Order) -> Iterator[Path]:
    """Where the run's checkpoint is written: on the shared disk, or in a folder of this machine that is removed at the end.

    Folders that killed workers have left behind are removed first: their claims are free.
    """
    name = order.job.config.identity
    if order.checkpoints is not None:
        folder = order.checkpoints / name
        folder.mkdir(parents=True, exist_ok=True)
        yield folder
        return
    root = cache_folder() / "running"
    for left in root.iterdir() if root.is_dir() else ():
        if (stale := claim.take(left)) is not None:
            stale.release(remove=True)
    ours = claim.take(root / f"{name}-{uuid4().hex[:8]}")
    assert ours is not None  # no other task knows the name
    try:
        yield ours.folder
    finally:
        ours.release(remove=True)


class _Changes:
    """Whether a file was replaced since it was last asked."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.seen = self._state()

    def changed(self) -> bool:
        now = self._state()
        new, self.seen = now != self.seen, now
        return new and now is not None

    def _state(self) -> tuple[int, int] | None:
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_mtime_ns


class _Stopping:
    """Whether the driver wants runs to stop: the question is asked once per process, and only its answer is looked for."""

    question: Any = None
    looked = 0.0

    def __init__(self, home: Any) -> None:
        self.home = home

    def __call__(self) -> bool:
        now = time.monotonic()
        if now - _Stopping.looked < LOOK:
            return False
        _Stopping.looked = now
        if _Stopping.question is None:
            _Stopping.question = self.home.stopping.remote()
        ready, _ = ray.wait([_Stopping.question], timeout=0)
        if not ready:
            return False
        try:
            if ray.get(_Stopping.question):
                return True
        except ray.exceptions.RayActorError:  # it starts again; if the driver has ended, this process soon does too
            pass
        _Stopping.question = None
        return False
