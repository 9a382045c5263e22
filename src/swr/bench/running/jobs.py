"""Execute runs: what is done is never done again, and how each run ended is recorded in the store."""

import os
import signal
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType

from swr.bench.experiments import RunConfig
from swr.bench.running.engines import claim
from swr.bench.running.engines.events import (
    Busy,
    Claimed,
    Done,
    Engine,
    Event,
    Failed,
    Job,
    Lost,
    Note,
    Placed,
    Reported,
    Stopped,
)
from swr.bench.running.engines.local import LocalEngine
from swr.bench.running.engines.worker import STOPPING
from swr.bench.running.first_stages import FirstStages
from swr.bench.running.progress import View
from swr.bench.store import Store, provenance_of

POLL = 0.2  # seconds to wait for an event
ELSEWHERE = 1.0  # seconds between two checks of runs that another process executes
GRACE = 10.0  # seconds for runs to reach the end of their epoch after Ctrl-C


@dataclass
class Outcome:
    """How the runs of an experiment ended."""

    done: list[RunConfig] = field(default_factory=list)
    """finished, now or before"""
    failed: list[tuple[RunConfig, str]] = field(default_factory=list)
    """with the error's last line"""
    left: list[RunConfig] = field(default_factory=list)
    """not finished, because of an interruption"""
    signal: int | None = None
    """that interrupted, SIGINT for Ctrl-C"""


def execute(
    configs: Sequence[RunConfig],
    store: Store,
    *,
    workers: int | None = None,
    data: Path | None = None,
    device: str = "cpu",
    view: View | None = None,
    retries: int = 3,
    engine: Engine | None = None,
) -> Outcome:
    """Run everything in ``configs`` that is not done yet; failures are recorded and do not stop the others.

    Args:
        configs: The runs.
        store: Where they are recorded.
        workers: Processes to use, by default one per core; never more than there are runs.
        data: A folder to search for datasets first.
        device: Of torch.
        view: Receives the progress.
        retries: How often a run is continued after its process was killed without any progress in between.
        engine: Where to run, by default in local processes.
    """
    unique = list({config.identity: config for config in configs}.values())
    session = _Session(store, data, device, view or View(), retries)
    todo = session.open(unique)
    if todo and engine is None:
        engine = LocalEngine(min(workers or cores(), len(todo)))
    if engine is not None:
        with _signals() as received:
            try:
                session.run(engine, received)
            finally:
                engine.close()
                session.close()
    session.tidy(unique)
    return session.outcome


def cores() -> int:
    """The processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Session:
    """One invocation: which runs wait, which run here, which another process executes."""

    def __init__(self, store: Store, data: Path | None, device: str, view: View, retries: int) -> None:
        self.store, self.data, self.device, self.view, self.retries = store, data, device, view, retries
        self.origin = provenance_of(device)
        self.since = time.time()
        self.waiting: deque[RunConfig] = deque()
        self.active: dict[str, RunConfig] = {}
        self.started: set[str] = set()
        self.elsewhere: dict[str, RunConfig] = {}
        self.first_stages = FirstStages(store.folder)
        self.checked = 0.0
        self.furthest: Counter[str] = Counter()
        self.deaths: Counter[str] = Counter()
        self.outcome = Outcome()

    def open(self, configs: Sequence[RunConfig]) -> list[RunConfig]:
        """Add the runs to the store; those that are not done."""
        self.store.add(configs, self.origin)
        records = {record.id: record for record in self.store.runs(ids=[config.identity for config in configs])}
        for config in configs:
            finished = records[config.identity].status == "done"
            (self.outcome.done if finished else self.waiting).append(config)
        self.first_stages.open(self.waiting)
        begun = {key: record.last for key, record in records.items() if record.last and record.status != "done"}
        self.view.open(configs, done=[config.identity for config in self.outcome.done], begun=begun)
        return list(self.waiting)

    def run(self, engine: Engine, received: list[int]) -> None:
        """Until everything has ended, or a signal asks to stop."""
        stopping: float | None = None
        while self.waiting or self.active or self.elsewhere:
            if received:
                if stopping is None:
                    stopping = time.monotonic()
                    self.outcome.signal = received[0]
                    if self.started:
                        self.view.note("stopping when the running epochs end; Ctrl-C again stops at once")
                    engine.stop()
                if len(received) > 1 or not self.started or time.monotonic() - stopping > GRACE:
                    return
            else:
                self._check_elsewhere()
                while engine.free and (config := self._next()) is not None:
                    self.waiting.remove(config)
                    self.active[config.identity] = config
                    folder, shared = self.store.folder / config.identity, self.first_stages.file(config)
                    engine.submit(Job(config, folder, self.data, self.device, shared))
            for event in engine.poll(POLL):
                self._handle(event, engine)
            self.view.tick()

    def close(self) -> None:
        """Release the runs that were interrupted, to be continued later."""
        for run in self.started:
            self.store.release(run)
        self.outcome.left = [*self.active.values(), *self.waiting, *self.elsewhere.values()]

    def tidy(self, configs: Sequence[RunConfig]) -> None:
        """Remove the checkpoints of finished runs whose process was killed before it could do so, and their first stages."""
        self.first_stages.tidy(configs)
        done = {config.identity for config in self.outcome.done}
        for folder in (self.store.folder / config.identity for config in configs if config.identity in done):
            if folder.exists() and (ours := claim.take(folder)) is not None:
                ours.release(remove=True)
        if self.store.folder.is_dir() and not any(self.store.folder.iterdir()):
            self.store.folder.rmdir()

    def _next(self) -> RunConfig | None:
        """The first run that need not wait for another one to end their common first stage."""
        return next((c for c in self.waiting if not self.first_stages.awaited(c, self.active.values(), self.furthest)), None)

    def _handle(self, event: Event, engine: Engine) -> None:
        config = self.active.get(event.run)
        if config is None:
            return
        match event:
            case Claimed(run):
                engine.answer(run, self._begin(config))
            case Busy(run):
                self.elsewhere[run] = self.active.pop(run)
                self.view.elsewhere(config)
            case Placed(run, node):
                self.store.start(run, replace(self.origin, host=node))
                self.view.placed(config, node)
            case Reported(run, epoch):
                if epoch.epoch > self.furthest[run]:  # a run that continues reports the epochs of its checkpoint again
                    self.store.record(run, [epoch])
                    self.furthest[run], self.deaths[run] = epoch.epoch, 0
                    self.view.epoch(config, epoch)
            case Note(_, text):
                self.view.note(f"{config.label}: {text}")
            case Done(run, facts):
                self.store.finish(run, facts)
                engine.answer(run, True)
                self._end(config)
                self.outcome.done.append(config)
                self.view.done(config)
            case Failed(run, error):
                self.store.fail(run, error)
                engine.answer(run, True)
                self._fail(config, last_line(error))
            case Stopped(run):
                self.started.discard(run)
                self.store.release(run)
                self.view.stopped(config)
            case Lost(run, reason):
                self._lost(config, reason)

    def _begin(self, config: RunConfig) -> bool:
        """Whether the run that was just claimed is to start: not if another process has finished it meanwhile."""
        if self._ended_elsewhere(config):
            return False
        self.store.add([config], self.origin)  # again, if it was removed while it waited
        self.store.start(config.identity, self.origin)
        self.started.add(config.identity)
        self.view.began(config)
        return True

    def _ended_elsewhere(self, config: RunConfig) -> bool:
        status, finished = self.store.status(config.identity)
        if status == "done":
            self._end(config)
            self.outcome.done.append(config)
            self.view.done(config)
            return True
        if status == "failed" and finished is not None and finished > self.since:
            self._fail(config, last_line(self.store.runs(ids=[config.identity])[0].error or ""))
            return True
        return False

    def _check_elsewhere(self) -> None:
        if time.monotonic() - self.checked < ELSEWHERE:
            return
        self.checked = time.monotonic()
        for run, config in list(self.elsewhere.items()):
            if not self._ended_elsewhere(config) and not claim.held(self.store.folder / run):
                self.waiting.append(self.elsewhere.pop(run))

    def _lost(self, config: RunConfig, reason: str) -> None:
        run = config.identity
        if run not in self.started:  # the process died before the run started, which is no fault of the run
            self.waiting.appendleft(self.active.pop(run))
            return
        self.deaths[run] += 1
        if self.deaths[run] > self.retries:
            error = f"{reason}; it did not get past epoch {self.furthest[run]} in {self.deaths[run]} attempts"
            self.store.fail(run, error)
            self._fail(config, error)
            return
        self.store.release(run)
        self.started.discard(run)
        self.waiting.appendleft(self.active.pop(run))
        saved = (self.store.folder / run / "checkpoint.pt").exists()
        then = "it continues from its last checkpoint" if saved else "it starts again (no checkpoint yet)"
        self.view.note(f"{config.label}: {reason}; {then}")
        self.view.stopped(config)

    def _fail(self, config: RunConfig, reason: str) -> None:
        self._end(config)
        self.outcome.failed.append((config, reason))
        self.view.failed(config, reason)

    def _end(self, config: RunConfig) -> None:
        self.active.pop(config.identity, None)
        self.elsewhere.pop(config.identity, None)
        self.started.discard(config.identity)
        self.first_stages.ended(config)


def last_line(error: str) -> str:
    """The error without its traceback: ``swr.errors.StateError: text`` becomes ``StateError: text``."""
    lines = error.strip().splitlines() or ["an unknown error"]
    kind, colon, text = lines[-1].partition(": ")
    return f"{kind.rpartition('.')[2]}{colon}{text}" if colon and " " not in kind else lines[-1]


@contextmanager
def _signals() -> Iterator[list[int]]:
    """Collect Ctrl-C and requests to terminate, to be handled between two events.

    A signal that the parent has had ignored stays ignored, as is the convention: SIGHUP under ``nohup``, SIGINT in the
    background of a script (``swr run … &``), where Ctrl-C is meant for what runs in front. SIGTERM ends such a run in order.
    """
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield received
        return

    def note(number: int, frame: FrameType | None) -> None:
        received.append(number)

    heard = [number for number in STOPPING if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, note) for number in heard}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
