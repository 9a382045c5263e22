"""What a report costs: a store with 1,000 runs of 200 epochs, read, tabulated, drawn and written as one page.

Seconds are processor time, so that other processes count less; those on the clock stand beside them.

python benchmarks/report.py [RUNS] [EPOCHS]
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from swr.bench.report import page
from swr.bench.report.results import load
from swr.bench.report.tables import tables
from swr.bench.store.exchange import export, merge

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/bench/report"))
from stores import make  # type: ignore[import-not-found]

SECONDS, MEGABYTES = 20, 15

T = TypeVar("T")


def timed(what: str, call: Callable[[], T]) -> tuple[T, float]:
    begin, clock = time.process_time(), time.perf_counter()
    result = call()
    seconds = time.process_time() - begin
    print(f"{what:<28}{seconds:6.1f} s    {time.perf_counter() - clock:6.1f} s on the clock", flush=True)
    return result, seconds


def main() -> None:
    runs, epochs = (int(text) for text in (sys.argv[1:] + ["1000", "200"][len(sys.argv) - 1 :]))
    with tempfile.TemporaryDirectory() as folder:
        store, target = Path(folder, "swr.sqlite"), Path(folder, "swr.html")
        timed(f"{runs} runs x {epochs} epochs made", lambda: make(store, runs=runs, epochs=epochs))
        print(f"{'store':<28}{store.stat().st_size / 1e6:6.1f} MB\n")
        results, reading = timed("read", lambda: load(store))
        timed("tables", lambda: tables(results.records, results.epochs))
        _, writing = timed("page", lambda: page.write(results, target))
        size = target.stat().st_size / 1e6
        print(f"{'report: read and page':<28}{reading + writing:6.1f} s    bound {SECONDS} s")
        print(f"{'page':<28}{size:6.1f} MB   bound {MEGABYTES} MB\n")
        timed("export", lambda: export(store, Path(folder, "files")))
        print(f"{'files':<28}{sum(path.stat().st_size for path in Path(folder, 'files').iterdir()) / 1e6:6.1f} MB")
        timed("import", lambda: merge(Path(folder, "files"), Path(folder, "other.sqlite")))


if __name__ == "__main__":
    main()
