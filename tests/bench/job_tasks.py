"""What the workers of the tests do in place of training; a module of its own, so that a fresh process can import it."""

import errno
import io
import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from swr.bench import training
from swr.bench.experiments import RunConfig
from swr.bench.running.engines import Job, LocalEngine, worker
from swr.bench.running.engines.events import Task
from swr.bench.training import Epoch


def config(seed: int = 0, method: str = "vanilla", epochs: int = 4, **more: Any) -> RunConfig:
    return RunConfig("quickstart", "digits-mlp", method, seed=seed, epochs=(epochs,), batch_size=64, **more)


def epoch(number: int, total: int = 4, **more: Any) -> Epoch:
    values: dict[str, Any] = {
        "epoch": number,
        "stage": 0,
        "total": total,
        "train_loss": 1 / number,
        "train_accuracy": 0.5,
        "test_accuracy": 0.1 * number,
        "validation_accuracy": None,
        "norms": {"1.weight": 3.0},
        "seconds": 0.01,
    }
    return Epoch(**{**values, **more})


def quick_engine(workers: int, task: Task) -> LocalEngine:
    """Processes that start quickly, since one of them imports torch for all; some tests use the real way."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([worker.__name__, "torch._dynamo"])  # the latter is what the first optimizer imports
    return LocalEngine(workers, task, context)


def log(job: Job, word: str) -> None:
    """One line in a file beside the runs, whichever process writes it."""
    with (job.folder.parent.parent / "log").open("a") as file:
        file.write(f"{word} {job.config.identity} {os.getpid()} {time.time()}\n")


def read_log(folder: Path, word: str) -> list[list[str]]:
    path = folder / "log"
    return [line.split()[1:] for line in path.read_text().splitlines() if line.startswith(word)] if path.exists() else []


def pretend(job: Job, report: Callable[[Epoch], None]) -> dict[str, Any]:
    """Four epochs of nothing."""
    log(job, "begin")
    for number in range(1, 5):
        report(epoch(number))
    return {"examples": 7}


def slowly(job: Job, report: Callable[[Epoch], None]) -> dict[str, Any]:
    """The same, long enough to meet someone."""
    log(job, "begin")
    for number in range(1, 5):
        time.sleep(0.1)
        report(epoch(number))
    return {}


def crash_on_odd_seeds(job: Job, report: Callable[[Epoch], None]) -> dict[str, Any]:
    log(job, "begin")
    report(epoch(1))
    if job.config.seed % 2:
        raise ZeroDivisionError("the loss fell over")
    return {}


def kill_itself(job: Job, report: Callable[[Epoch], None]) -> dict[str, Any]:
    """Seed 1 is always killed in its second epoch, as when memory runs out."""
    log(job, "begin")
    report(epoch(1))
    if job.config.seed == 1:
        time.sleep(0.7)  # longer than a worker of a cluster gathers what it reports
        os.kill(os.getpid(), signal.SIGKILL)
    return {}


def train_and_save(job: Job, report: Callable[[Epoch], None]) -> dict[str, Any]:
    """Real training, with checkpoints as often as possible."""
    log(job, "begin")
    training.run(job.config, job.checkpoint, data=job.data, every=0.0, first_stage=job.first_stage, report=report)
    return {}


def vanilla_crashes_in_its_first_stage(job: Job, report: Callable[[Epoch], None]) -> dict[str, Any]:
    """Real training, but for vanilla."""
    if job.config.method == "vanilla":
        report(epoch(1, job.config.total))
        raise ZeroDivisionError("the loss fell over")
    return train_and_save(job, report)


def train_on_a_full_disk(job: Job, report: Callable[[Epoch], None]) -> dict[str, Any]:
    """Real training; on seed 1 the second checkpoint meets a full disk."""
    if job.config.seed == 1:
        real = os.fsync
        calls = iter(range(1000))

        def full(descriptor: int) -> None:
            if next(calls) >= 2:  # a checkpoint takes two: the file, and its folder
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            real(descriptor)

        os.fsync = full
        try:
            return train_and_save(job, report)
        finally:
            os.fsync = real
    return worker.train(job, report)


def die_at_once(*_: object) -> None:
    os._exit(3)


def killed_at_a_bar(job: Job, report: Callable[[Epoch], None]) -> dict[str, Any]:
    """Killed once while a progress bar is shown, as tracing does; then four epochs of nothing."""
    from tqdm import tqdm

    first = not read_log(job.folder.parent.parent, "begin")
    log(job, "begin")
    with tqdm(total=2, disable=False, file=io.StringIO()):
        if first:
            os.kill(os.getpid(), signal.SIGKILL)
    for number in range(1, 5):
        report(epoch(number))
    return {}
