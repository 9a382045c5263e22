"""The process that trains: it takes jobs from a pipe, one at a time, and ends with its parent."""

import logging
import os
import signal
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from multiprocessing.connection import Connection
from typing import Any

import torch

from swr.bench.data import Dataset, load
from swr.bench.experiments import find_column
from swr.bench.experiments.material import facts
from swr.bench.running.engines import claim
from swr.bench.running.engines.events import Busy, Claimed, Done, Event, Failed, Job, Note, Reported, Stopped, Task
from swr.bench.training import Epoch, run
from swr.bench.training.process import keep_memory

STOPPING = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
"""signals that ask the whole invocation to stop"""


def main(pipe: "Connection[Any, Any]", lifeline: "Connection[Any, Any]", task: Task) -> None:
    """Work until the pipe closes.

    Args:
        pipe: Receives jobs and answers, sends events.
        lifeline: A message asks to stop at the end of the epoch; when it closes, the parent is dead.
        task: What to do with a job.
    """
    for number in STOPPING:  # they reach every process of the terminal or the batch job; the parent decides
        signal.signal(number, signal.SIG_IGN)
    stop = threading.Event()
    threading.Thread(target=_watch, args=(lifeline, stop), daemon=True).start()
    torch.set_num_threads(1)
    keep_memory()
    _keep_bars_to_this_process()
    try:
        pipe.send(None)  # ready
        while (job := pipe.recv()) is not None:
            _work(pipe, job, task, stop)
    except (EOFError, BrokenPipeError, ConnectionResetError, _Gone):
        os._exit(1)


def train(job: Job, report: Callable[[Epoch], None]) -> dict[str, Any]:
    """Train a run; returns the facts of the data that it saw."""
    return train_on(load(find_column(job.config.column).dataset, job.data), job, report)


def train_on(dataset: Dataset, job: Job, report: Callable[[Epoch], None]) -> dict[str, Any]:
    """Train a run on data that is loaded; returns its facts."""
    epochs = run(job.config, job.checkpoint, data=dataset, device=job.device, first_stage=job.first_stage, report=report)
    taken_over = sum(not epoch.seconds for epoch in epochs)
    return facts(job.config, dataset) | ({"taken_over": taken_over} if taken_over else {})


def perform(job: Job, task: Task, send: Callable[[Event], None], stopping: Callable[[], bool]) -> Done | Failed | Stopped:
    """Execute a job and return how it ended.

    Args:
        job: The run.
        task: What to do with it.
        send: Receives epochs and notes.
        stopping: Whether to stop; asked at the end of every epoch.
    """
    name = job.config.identity

    def report(epoch: Epoch) -> None:
        send(Reported(name, epoch))
        if stopping():
            raise _Stop

    try:
        with _Notes(lambda text: send(Note(name, text))):
            return Done(name, task(job, report))
    except _Stop:
        return Stopped(name)
    except (Exception, SystemExit):
        return Failed(name, traceback.format_exc())


def _keep_bars_to_this_process() -> None:
    """Tracing shows a bar of tqdm, whose lock is a semaphore that a killed process leaves behind; one for threads suffices."""
    with suppress(ImportError):
        import_module("tqdm").tqdm.set_lock(threading.RLock())


class _Stop(BaseException):
    """Ends a run at the end of an epoch; not an Exception, so that it is not handled as an error."""


class _Gone(BaseException):
    """The parent has closed its pipe; not an Exception, so that it is no error of the run."""


def _work(pipe: "Connection[Any, Any]", job: Job, task: Task, stop: threading.Event) -> None:
    name = job.config.identity
    try:
        ours = claim.take(job.folder)
    except claim.ClaimError as error:
        pipe.send(Failed(name, f"ClaimError: {error}"))
        pipe.recv()
        return
    if ours is None:
        pipe.send(Busy(name))
        return
    pipe.send(Claimed(name))
    if not pipe.recv():
        ours.release(remove=True)
        return

    def send(event: Event) -> None:
        try:
            pipe.send(event)
        except OSError as error:
            raise _Gone from error

    ended = perform(job, task, send, stop.is_set)
    pipe.send(ended)
    answered = not isinstance(ended, Stopped) and pipe.recv()
    ours.release(remove=isinstance(ended, Done) and answered)


def _watch(lifeline: "Connection[Any, Any]", stop: threading.Event) -> None:
    try:
        while True:
            lifeline.recv()
            stop.set()
    except (EOFError, OSError):
        os._exit(1)  # like a kill, which all our files survive


class _Notes(logging.Handler):
    """Sends what is logged, and every Python warning once, to the user."""

    def __init__(self, send: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self.send = send
        self.seen: set[str] = set()
        self.loggers = [logging.getLogger("swr"), logging.getLogger("py.warnings")]

    def __enter__(self) -> None:
        logging.captureWarnings(True)
        for logger in self.loggers:
            logger.addHandler(self)
            logger.propagate = False

    def __exit__(self, *_: object) -> None:
        logging.captureWarnings(False)
        for logger in self.loggers:
            logger.removeHandler(self)
            logger.propagate = True

    def emit(self, record: logging.LogRecord) -> None:
        """Send one message, unless this run sent it before."""
        text = record.getMessage().strip()
        if record.name == "py.warnings":
            text = text.splitlines()[0]
        if text not in self.seen:
            self.seen.add(text)
            self.send(text)
