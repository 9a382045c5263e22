"""The local engine: one process per core, one thread each, all of them gone when this process is."""

import multiprocessing
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from typing import Any, Literal

from swr.bench.engines import worker
from swr.bench.engines.events import Busy, Done, EngineError, Event, Failed, Job, Lost, Stopped, Task

PATIENCE = 5  # processes in a row that die before they are ready


@dataclass
class _Worker:
    process: BaseProcess
    pipe: "Connection[Any, Any]"
    lifeline: "Connection[Any, Any]"
    ready: bool = False
    job: Job | None = None
    ended: bool = False
    """the job is over but for our answer"""


class LocalEngine:
    """Runs jobs in processes of their own, which are replaced when they die.

    workers: how many processes.
    task: what a worker does with a job; training, unless a test has something else in mind.
    start: how processes come to be. "spawn" is the cleanest and takes the seconds that importing torch takes; "forkserver"
        imports it once, and its processes keep the environment variables of that moment.
    """

    def __init__(self, workers: int, task: Task = worker.train, start: Literal["spawn", "forkserver"] = "spawn") -> None:
        self._context = multiprocessing.get_context("spawn") if start == "spawn" else _preloaded()
        self._task = task
        self._size = workers
        self._workers: list[_Worker] = []
        self._stillborn = 0

    @property
    def free(self) -> int:
        """How many more jobs could begin now."""
        return self._size - sum(w.job is not None for w in self._workers)

    @property
    def processes(self) -> list[int]:
        """The ids of the processes that have a run and are ready for it."""
        return [w.process.pid for w in self._workers if w.ready and w.job is not None and w.process.pid is not None]

    def submit(self, job: Job) -> None:
        """Hand over a job; only when something is free."""
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
        heard = wait([w.pipe for w in self._workers], timeout)
        return [event for one in list(self._workers) if one.pipe in heard for event in self._listen(one)]

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
        """End everything at once; what was checkpointed is kept."""
        for one in self._workers:
            if one.job is None and one.ready:
                _send(one.pipe, None)  # it may be tidying up after its last job
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
        with _interrupts_held():
            process.start()
        theirs.close()
        lifeline_end.close()
        self._workers.append(_Worker(process, pipe, lifeline))
        return self._workers[-1]

    def _listen(self, one: _Worker) -> Iterator[Event]:
        try:
            while one.pipe.poll():
                event: Event | None = one.pipe.recv()
                if event is None:
                    one.ready, self._stillborn = True, 0
                    if one.job is not None:
                        _send(one.pipe, one.job)
                    continue
                if isinstance(event, Busy | Stopped):
                    one.job = None
                one.ended = isinstance(event, Done | Failed)
                yield event
        except (EOFError, OSError):
            yield from self._bury(one)

    def _bury(self, one: _Worker) -> Iterator[Event]:
        self._workers.remove(one)
        one.process.join(5.0)
        code = one.process.exitcode
        _end(one)
        if not one.ready:
            self._stillborn += 1
            if self._stillborn >= PATIENCE:
                raise EngineError(
                    f"worker processes end before they are ready ({_reason(code)}): "
                    "check the memory that is free, or use fewer with --workers"
                )
        if one.job is not None:
            yield Lost(one.job.config.identity, _reason(code) if one.ready else "")


def _preloaded() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([worker.__name__, "torch._dynamo"])  # the latter is what the first optimizer imports
    return context


def _send(pipe: "Connection[Any, Any]", message: object) -> None:
    """Send to a worker; one that is dead is noticed when its pipe is read."""
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
def _interrupts_held() -> Iterator[None]:
    """A process that starts here never sees Ctrl-C, not even while it starts; this one sees it afterwards."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
