"""The Ray engine: one Ray task per run, on this machine or on a cluster; this process alone writes the store.

A task is never retried by Ray itself: when it is lost, the run is submitted again with the newest checkpoint, on another node
if there is one. What workers save travels through Ray's object store, and is kept beside the store until the run is done.
"""

from __future__ import annotations

import logging
import os
import platform
import shutil
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import ray
from ray import exceptions
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from swr.bench.files import replacing
from swr.bench.running.engines import claim
from swr.bench.running.engines.events import (
    Busy,
    Claimed,
    Done,
    EngineError,
    Event,
    Failed,
    Job,
    Lost,
    Note,
    Placed,
    Stopped,
    Task,
)
from swr.bench.running.engines.ray_home import Home, environment
from swr.bench.running.engines.ray_task import Arrived, Message, Order, Refused, Saved, difference, stream, versions
from swr.bench.words import require

LOOK = 2.0  # seconds between two looks at the nodes of the cluster
TURN = 0.05  # seconds to read messages for, before the caller has a turn
START = 60.0  # seconds for a node to answer at the beginning

log = logging.getLogger("swr")


@dataclass
class _Run:
    """A job that was submitted, as the driver knows it."""

    job: Job
    claim: claim.Claim
    messages: Any = None
    """Ray's generator, while a task executes the run"""
    host: str = "a node"
    node: str | None = None
    pid: int | None = None
    ended: Done | Failed | None = None


class RayEngine:
    """Executes each job as a task of Ray.

    Args:
        address: Of a cluster to join, ``auto`` for the one that this machine is part of; by default Ray is started here.
        workers: At most so many runs at once; without an address, the processors that Ray is given.
        cpus: Processors of one run, and its threads.
        gpus: GPUs of one run, possibly a fraction.
        checkpoints: A folder that all machines share; by default checkpoints travel to the driver.
        data: A folder to search for datasets first.
        runtime_env: Passed on to Ray.
        logs: Show what Ray and the workers print.
        task: What a worker does with a job, by default training.

    Raises:
        EngineError: There is no such cluster, no node can execute a run, or versions differ.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        workers: int | None = None,
        cpus: float = 1.0,
        gpus: float = 0.0,
        checkpoints: Path | None = None,
        data: Path | None = None,
        runtime_env: dict[str, Any] | None = None,
        logs: bool = False,
        task: Task | None = None,
    ) -> None:
        require(cpus > 0, "--cpus-per-run", "above 0", cpus)
        require(gpus >= 0, "--gpus-per-run", "at least 0", gpus)
        self._limit, self._cpus, self._gpus = workers, cpus, gpus
        self._checkpoints = None if checkpoints is None else checkpoints.absolute()
        self._task = task
        self._runs: dict[str, _Run] = {}
        self._events: deque[Event] = deque()
        self._lost_on: dict[str, str] = {}
        """the node on which a run was lost last"""
        self._looked, self._nodes = 0.0, dict[str, int]()
        _connect(address, workers, cpus, gpus, runtime_env, logs)
        try:
            here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
            actor: Any = ray.remote(Home)
            actor = actor.options(num_cpus=0, max_restarts=-1, max_concurrency=100_000, scheduling_strategy=here)
            self._home: Any = actor.remote(environment(), Path.cwd(), data)
            self._stream: Any = ray.remote(num_returns="streaming", max_retries=0, num_cpus=cpus, num_gpus=gpus)(stream)
            self._versions = versions()
            self._check_nodes()
        except BaseException:
            ray.shutdown()
            raise

    @property
    def capacity(self) -> int:
        """How many runs the nodes can execute at once."""
        if time.monotonic() - self._looked > LOOK:
            known: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
            before, self._nodes = self._nodes, {node["NodeID"]: self._places(node) for node in known if node["Alive"]}
            self._looked = time.monotonic()
            if any(before.values()) and not any(self._nodes.values()):
                log.warning("no node of the cluster is left that can execute a run; waiting for one to join")
        places = sum(self._nodes.values())
        return places if self._limit is None else min(places, self._limit)

    @property
    def free(self) -> int:
        """How many more jobs can start now."""
        return max(0, self.capacity - len(self._runs))

    @property
    def processes(self) -> list[int]:
        """The ids of the processes that execute runs, on whichever node."""
        return [run.pid for run in self._runs.values() if run.pid is not None]

    def submit(self, job: Job) -> None:
        """Submit a job; only if something is free."""
        name = job.config.identity
        try:
            ours = claim.take(job.folder)
        except claim.ClaimError as error:
            self._events.append(Failed(name, f"ClaimError: {error}"))
            return
        if ours is None:
            self._events.append(Busy(name))
            return
        self._runs[name] = _Run(job, ours)
        self._events.append(Claimed(name))

    def poll(self, timeout: float) -> list[Event]:
        """What has happened, after waiting for at most ``timeout`` seconds."""
        found = list(self._events)
        self._events.clear()
        until = time.monotonic() + TURN
        timeout = 0.0 if found else timeout
        while waiting := {run.messages: run for run in self._runs.values() if run.messages is not None}:
            ready, _ = ray.wait(list(waiting), num_returns=1, timeout=timeout)
            if ready and len(waiting) > 1:
                ready, _ = ray.wait(list(waiting), num_returns=len(waiting), timeout=0)
            for messages in ready:
                found += self._read(waiting[messages])
            timeout = 0.0
            if not ready or time.monotonic() > until:
                return found
        if not found:
            time.sleep(timeout)
        return found

    def answer(self, run: str, yes: bool) -> None:
        """Reply to Claimed, Done or Failed."""
        one = self._runs.get(run)
        if one is None:
            return
        if one.ended is None and yes:
            self._start(one)
            return
        del self._runs[run]
        self._lost_on.pop(run, None)
        finished = not yes or isinstance(one.ended, Done)
        if finished and self._checkpoints is not None:
            shutil.rmtree(self._checkpoints / run, ignore_errors=True)
        one.claim.release(remove=finished)

    def stop(self) -> None:
        """Ask every run to stop at the end of its epoch; those that wait for a node stop now."""
        self._home.stop.remote()
        for run in self._runs.values():
            if run.messages is not None and run.node is None:
                ray.cancel(run.messages)

    def close(self) -> None:
        """End everything now; checkpoints are kept."""
        for run in self._runs.values():
            if run.messages is not None:
                ray.cancel(run.messages, force=True)
            run.claim.release()
        self._runs.clear()
        ray.shutdown()

    def _start(self, run: _Run) -> None:
        order = Order(
            run.job, self._home, self._versions, max(1, int(self._cpus)), checkpoints=self._checkpoints, task=self._task
        )
        checkpoint = _put(run.job.checkpoint) if self._checkpoints is None else None
        first_stage = _put(run.job.first_stage) if checkpoint is None and run.job.first_stage is not None else None
        options: dict[str, Any] = {"name": run.job.config.label}
        others = [node for node, places in self._nodes.items() if places and node != self._lost_on.get(run.job.config.identity)]
        if run.job.config.identity in self._lost_on and others:
            other = others[len(self._lost_on) % len(others)]
            options["scheduling_strategy"] = NodeAffinitySchedulingStrategy(other, soft=True)
        run.messages = self._stream.options(**options).remote(order, checkpoint, first_stage)

    def _read(self, run: _Run) -> Iterator[Event]:
        """What the next messages of a run say."""
        name = run.job.config.identity
        try:
            batch: list[Message] = ray.get(next(run.messages))
        except StopIteration:
            yield self._lose(run, f"the task on {run.host} ended without a result")
        except exceptions.TaskCancelledError:
            yield self._leave(run, Stopped(name))
        except exceptions.RuntimeEnvSetupError as error:
            raise EngineError(f"the --runtime-env cannot be set up on the cluster: {_line(error)}") from error
        except exceptions.RayTaskError as error:  # it could not even begin: a module that the node does not have
            yield self._end(run, Failed(name, str(error)))
        except exceptions.RayError as error:
            yield self._lose(run, _reason(run.host, error))
        else:
            for message in batch:
                yield from self._interpret(run, message)

    def _interpret(self, run: _Run, message: Message) -> Iterator[Event]:
        """What a message means for the caller."""
        name = run.job.config.identity
        match message:
            case Arrived(host, node, pid):
                run.host, run.node, run.pid = host, node, pid
                yield Placed(name, host)
            case Refused(host, node, reason):
                run.node = node
                yield self._lose(run, reason)
            case Saved(content, first_stage):
                yield from _keep(run.job, content, first_stage)
            case Done() | Failed():
                yield self._end(run, message)
            case Stopped():
                yield self._leave(run, message)
            case _:
                yield message

    def _end(self, run: _Run, event: Done | Failed) -> Event:
        """The task has ended; the claim is held until that is recorded."""
        run.messages, run.pid, run.ended = None, None, event
        return event

    def _leave(self, run: _Run, event: Event) -> Event:
        del self._runs[run.job.config.identity]
        run.claim.release()
        return event

    def _lose(self, run: _Run, reason: str) -> Event:
        if run.node is not None:
            self._lost_on[run.job.config.identity] = run.node
            self._looked = 0.0
        return self._leave(run, Lost(run.job.config.identity, reason))

    def _places(self, node: dict[str, Any]) -> int:
        """How many runs a node can execute at once."""
        has = node["Resources"]
        places = [has.get("CPU", 0.0) / self._cpus, *([has.get("GPU", 0.0) / self._gpus] if self._gpus else [])]
        return int(min(places) + 1e-9)

    def _check_nodes(self) -> None:
        """Compare the versions on every node with ours; at least one node must be able to execute a run.

        A node that does not answer is left to the runs: they compare versions too, before they begin.
        """
        if not self.capacity:
            wanted = f"{self._cpus:g} CPUs" + (f" and {self._gpus:g} GPUs" if self._gpus else "")
            raise EngineError(f"no node of the cluster has {wanted}: ask for less with --cpus-per-run and --gpus-per-run")
        ask: Any = ray.remote(num_cpus=0)(_versions_here)
        asked = [
            ask.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote() for node in self._nodes
        ]
        answered, silent = ray.wait(asked, num_returns=len(asked), timeout=START)
        answers = [answer for one in answered if (answer := _answer(one)) is not None]
        ready, _ = ray.wait([self._home.ready.remote()], timeout=START)
        if not answers or not ready:
            raise EngineError(f"the nodes of the cluster do not answer within {START:g} s: look at `ray status`")
        if silent:
            log.warning("%d of %d nodes of the cluster do not answer yet", len(silent), len(asked))
        for host, theirs in answers:
            if found := difference(self._versions, theirs, host):
                raise EngineError(f"{found}: install the same versions on all machines, or name a --runtime-env")


def _answer(asked: Any) -> tuple[str, dict[str, str]] | None:
    """A node's name and versions; None if it was lost meanwhile."""
    try:
        found: tuple[str, dict[str, str]] = ray.get(asked)
    except exceptions.RuntimeEnvSetupError as error:
        raise EngineError(f"the --runtime-env cannot be set up on the cluster: {_line(error)}") from error
    except exceptions.RayTaskError as error:
        raise EngineError(f"a node of the cluster cannot import swr ({_line(error)}): install it there") from error
    except exceptions.RayError:
        return None
    return found


def _connect(
    address: str | None, workers: int | None, cpus: float, gpus: float, runtime_env: dict[str, Any] | None, logs: bool
) -> None:
    """Join a cluster, or start Ray on this machine."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # the user has not agreed to their being collected
    common: dict[str, Any] = {"log_to_driver": logs, "runtime_env": runtime_env, "logging_level": "INFO" if logs else "ERROR"}
    if address is not None and address.startswith("ray://"):
        raise EngineError(f"--address {address} is a Ray Client's: run swr on a machine of the cluster, with --address auto")
    try:
        if address is None:
            os.environ.setdefault("RAY_worker_niceness", "0")  # as local processes; Ray's workers yield to all others
            processors = None if workers is None else max(1, round(workers * cpus))
            ray.init("local", num_cpus=processors, include_dashboard=False, **common)
        else:
            ray.init(address, **common)
    except (ConnectionError, RuntimeError, ValueError, exceptions.RayError, OSError) as error:
        if address is None:
            raise EngineError(f"Ray cannot be started on this machine ({_line(error)})") from error
        raise EngineError(
            f"the Ray cluster at {address} cannot be joined ({_line(error)}): start it with `ray start --head`, "
            "and set RAY_AUTH_MODE=token if it wants a token"
        ) from error


def _versions_here() -> tuple[str, dict[str, str]]:
    return platform.node(), versions()


def _put(path: Path) -> Any:
    """A file in Ray's object store, or None if there is no such file."""
    try:
        return ray.put(numpy.fromfile(path, dtype=numpy.uint8))
    except FileNotFoundError:
        return None


def _keep(job: Job, content: Any, first_stage: bool) -> Iterator[Event]:
    """Write the checkpoint, or the first stage that others share, beside the store."""
    path = job.first_stage if first_stage and job.first_stage is not None else job.checkpoint
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path, durable=True) as [file]:
            file.write(memoryview(content))
    except OSError as error:
        yield Note(job.config.identity, f"its checkpoint could not be kept ({error}): make room on the disk")


def _reason(host: str, error: exceptions.RayError) -> str:
    if isinstance(error, exceptions.OutOfMemoryError):
        return f"the process on {host} was ended for lack of memory"
    if isinstance(error, exceptions.NodeDiedError):
        return f"{host} was lost"
    if isinstance(error, exceptions.WorkerCrashedError):
        return f"the process on {host} was ended, perhaps for lack of memory"
    return f"what {host} reported was lost ({type(error).__name__})"


def _line(error: BaseException) -> str:
    """An error in one line; the last one of a remote traceback."""
    lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()]
    last = lines[-1] if isinstance(error, exceptions.RayTaskError) else lines[0] if lines else type(error).__name__
    return last.rstrip(".")
