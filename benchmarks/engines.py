"""What an engine costs: many short runs on two workers, on Ray and in local processes, and what grows with their number.

Wall time compares the engines; the driver's own cost is processor time, so that other processes count less. With ``--empty`` a
run trains nothing: what is left is the engine, the store and Ray.

The engines take turns, because the speed of a shared machine changes from minute to minute.

python benchmarks/engines.py [--runs 200] [--epochs 120] [--rounds 2] [--empty] [--engines local ray]
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from swr.bench.experiments import RunConfig
from swr.bench.running.engines import Engine, Job, LocalEngine
from swr.bench.running.jobs import execute
from swr.bench.running.progress import View
from swr.bench.store import Store
from swr.bench.training import Epoch

BOUND = 1.10
PARTS = 5


def empty(job: Job, report: Callable[[Epoch], None]) -> dict[str, Any]:
    """Report epochs of nothing."""
    for number in range(1, job.config.total + 1):
        report(Epoch(number, 0, job.config.total, 1.0, 0.5, 0.5, None, {"1.weight": 1.0}, 0.001))
    return {}


class Cost(View):
    """Records the driver's costs each time another part of the runs is done."""

    def __init__(self, runs: int) -> None:
        self.runs, self.finished = runs, 0
        self.rows: list[tuple[int, float, float, float]] = []
        self.writing = 0.0
        self.first = time.perf_counter()

    def done(self, config: RunConfig) -> None:
        """Count."""
        self.finished += 1
        if self.finished == 1:
            self.first = time.perf_counter()
        if self.finished % (self.runs // PARTS) == 0:
            self.rows.append((self.finished, time.process_time(), self.writing, memory()))

    def watch(self, store: Store) -> None:
        """Time what the store writes."""
        for name in ("start", "record", "finish"):
            setattr(store, name, self._timed(getattr(store, name)))

    def _timed(self, call: Callable[..., None]) -> Callable[..., None]:
        def timed(*arguments: Any) -> None:
            begin = time.thread_time()
            call(*arguments)
            self.writing += time.thread_time() - begin

        return timed


def memory() -> float:
    """Megabytes that this process holds now."""
    if os.path.exists("/proc/self/statm"):  # noqa: PTH110
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def make(name: str, trains: bool) -> Engine:
    if name == "local":
        return LocalEngine(2) if trains else LocalEngine(2, empty)
    from swr.bench.running.engines.ray_engine import RayEngine

    return RayEngine(workers=2, task=None if trains else empty)


def measure(name: str, runs: int, epochs: int, trains: bool) -> float:
    """Print a table of the driver's costs; the seconds from the first finished run to the last, per run."""
    configs = [RunConfig("quickstart", "digits-mlp", "vanilla", seed=seed, epochs=(epochs,)) for seed in range(runs)]
    cost = Cost(runs)
    with tempfile.TemporaryDirectory() as folder, Store(Path(folder, "swr.sqlite")) as store:
        cost.watch(store)
        begin = time.perf_counter()
        outcome = execute(configs, store, engine=make(name, trains), view=cost)
        wall, each = time.perf_counter() - begin, (time.perf_counter() - cost.first) / (runs - 1)
        assert len(outcome.done) == runs, outcome.failed
        size = Path(folder, "swr.sqlite").stat().st_size / 1e6
    print(
        f"{name}: {runs} runs of {epochs} epochs, {wall:.1f} s with the start, {1e3 * each:.1f} ms a run, store {size:.1f} MB"
    )
    show(cost.rows)
    return each


def show(rows: Iterable[tuple[int, float, float, float]]) -> None:
    print(f"{'runs':>8}  {'driver ms/run':>13}  {'writing ms/run':>14}  {'memory MB':>9}")
    before = None
    for runs, busy, writing, held in rows:
        if before is not None:
            count = runs - before[0]
            own, wrote = 1e3 * (busy - before[1]) / count, 1e3 * (writing - before[2]) / count
            print(f"{runs:>8}  {own:>13.2f}  {wrote:>14.2f}  {held:>9.1f}")
        before = runs, busy, writing, held
    print(flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--epochs", type=int, default=120, help="as in the quick start")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--empty", action="store_true")
    parser.add_argument("--engines", nargs="+", choices=["local", "ray"], default=["local", "ray"])
    given = parser.parse_args()
    turns = [
        {name: measure(name, given.runs, given.epochs, not given.empty) for name in given.engines} for _ in range(given.rounds)
    ]
    if len(given.engines) == 2:
        ray, local = (sum(seconds[name] for seconds in turns) / given.rounds for name in ("ray", "local"))
        each = ", ".join(f"{seconds['ray'] / seconds['local']:.3f}" for seconds in turns)
        print(f"Ray / local: {ray / local:.3f} ({each}), bound {BOUND} with training; {1e3 * (ray - local):+.1f} ms a run")


if __name__ == "__main__":
    main()
