"""The local engine: one process per core, one thread each, all of which end with this process."""

import multiprocessing
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerContext, SpawnContext
from multiprocessing.process import BaseProcess
from typing import Any

from swr.bench.running.engines import worker
from swr.bench.running.engines.events import Busy, Done, EngineError, Event, Failed, Job, Lost, Stopped, Task

PATIENCE = 5  # processes in a row that die before they are ready


@dataclass
class _Worker:
    process: BaseProcess
    pipe: "Connection[Any, Any]"
    lifeline: "Connection[Any, Any]"
    ready: bool = False
    job: Job | None = None
    ended: bool = False
    """the job has ended and waits for our answer"""


class LocalEngine:
    """Executes each job in a process of its own; processes that die are replaced.

    Args:
        workers: How many processes.
        task: What a worker does with a job, by default training.
        context: How processes are started, by default spawned.
    """

    def __init__(
        self, workers: int, task: Task = worker.train, context: SpawnContext | ForkServerContext | None = None
    ) -> None:
        self._context = context or multiprocessing.get_context("spawn")
        self._task = task
        self._size = workers
        self._workers: list[_Worker] = []
        self._failed_starts = 0

    @property
    def free(self) -> int:
        """How many more jobs can start now."""
        return self._size - sum(w.job is not None for w in self._workers)

    @property
    def processes(self) -> list[int]:
        """The ids of the processes that have a run and are ready for it."""
        return [w.process.pid for w in self._workers if w.ready and w.job is not None and w.process.pid is not None]

    def submit(self, job: Job) -> None:
        """Submit a job; only if something is free."""
        idle = [w for w in self._workers if w.job is None]
        one = next((w for w in idle if w.ready), idle[0] if idle else None) or self._start()
        one.job, one.ended = job, False
        if one.ready:
            _send(one.pipe, job)

    def poll(self, timeout: float) -> list[Event]:
        """What has happened, after waiting for at most ``timeout`` seconds."""
        if not self._workers:
            time.sleep(timeout)
            return []
        readable = wait([w.pipe for w in self._workers], timeout)
        return [event for one in list(self._workers) if one.pipe in readable for event in self._receive(one)]

    def answer(self, run: str, yes: bool) -> None:
        """Reply to Claimed, Done or Failed."""
        for one in self._workers:
            if one.job is not None and one.job.config.identity == run:
                _send(one.pipe, yes)
                if one.ended or not yes:
                    one.job = None

    def stop(self) -> None:
        """Ask every run to stop at the end of its epoch."""
        for one in self._workers:
            _send(one.lifeline, "stop")

    def close(self) -> None:
        """End everything now; checkpoints are kept."""
        for one in self._workers:
            if one.job is None and one.ready:
                _send(one.pipe, None)  # it may be removing the files of its last job
            else:
                one.process.kill()
        deadline = time.monotonic() + 2.0
        for one in self._workers:
            one.process.join(max(0.0, deadline - time.monotonic()))
            _end(one)
        self._workers.clear()

    def _start(self) -> _Worker:
        pipe, theirs = self._context.Pipe()
        lifeline_end, lifeline = self._context.Pipe(duplex=False)
        process = self._context.Process(target=worker.main, args=(theirs, lifeline_end, self._task), daemon=True)
        with _signals_held():
            process.start()
        theirs.close()
        lifeline_end.close()
        self._workers.append(_Worker(process, pipe, lifeline))
        return self._workers[-1]

    def _receive(self, one: _Worker) -> Iterator[Event]:
        try:
            while one.pipe.poll():
                event: Event | None = one.pipe.recv()
                if event is None:
                    one.ready, self._failed_starts = True, 0
                    if one.job is not None:
                        _send(one.pipe, one.job)
                    continue
                if isinstance(event, Busy | Stopped):
                    one.job = None
                one.ended = isinstance(event, Done | Failed)
                yield event
        except (EOFError, OSError):
            yield from self._remove_dead(one)

    def _remove_dead(self, one: _Worker) -> Iterator[Event]:
        self._workers.remove(one)
        one.process.join(5.0)
        code = one.process.exitcode
        _end(one)
        if not one.ready:
            self._failed_starts += 1
            if self._failed_starts >= PATIENCE:
                raise EngineError(
                    f"worker processes end before they are ready ({_reason(code)}): "
                    "check the memory that is free, or use fewer with --workers"
                )
        if one.job is not None:
            yield Lost(one.job.config.identity, _reason(code) if one.ready else "")


def _send(pipe: "Connection[Any, Any]", message: object) -> None:
    """Send to a worker; a dead one is detected when its pipe is read."""
    with suppress(OSError):
        pipe.send(message)


def _end(one: _Worker) -> None:
    if one.process.is_alive():
        one.process.kill()
        one.process.join()
    one.pipe.close()
    one.lifeline.close()
    one.process.close()


def _reason(code: int | None) -> str:
    if code is None or code >= 0:
        return f"the process ended with code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"the process was ended by {name}" + (", perhaps for lack of memory" if name == "SIGKILL" else "")


@contextmanager
def _signals_held() -> Iterator[None]:
    """A process that is started inside never receives Ctrl-C, SIGTERM or SIGHUP, not even while it starts.

    This process receives them afterwards. Starting the resource tracker may reset the mask, so it is started first.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, worker.STOPPING)
    try:
        resource_tracker.ensure_running()
        signal.pthread_sigmask(signal.SIG_BLOCK, worker.STOPPING)
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
