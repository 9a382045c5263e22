"""The study of agents whose sensors change: which method keeps them learning as well as a fresh agent?

    python tools/control_study.py run STORE [COLUMN …]     tune on a tuning seed, then run the reported seeds once
    python tools/control_study.py page                     write docs/reinforcement.md's table again, from results/rl

The setting was chosen with vanilla and the fresh agent alone. Every method then gets two values of its one knob on the tuning
seed; the best by the average return runs on other seeds, and its average return is reported once. LayerNorm has no knob.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from rich.console import Console

from swr.bench.experiments import RunConfig, column_title, find_column, find_experiment
from swr.bench.experiments.expansion import configure
from swr.bench.report.marked_text import put_between
from swr.bench.report.statistics import paired, summary
from swr.bench.running import Estimator, execute
from swr.bench.running.progress import view
from swr.bench.store import Store, provenance_of
from swr.bench.store.exchange import merge
from swr.bench.training.agents.environments import LIMIT
from swr.methods import describe

ROOT = Path(__file__).parents[1]
STREAM = "changing-channels"
COLUMNS = ("cartpole-ppo", "cartpole-dqn")
TUNING, REPORTED = (100,), (0, 1, 2, 3, 4)
"""seeds to choose on, and seeds that are looked at once"""

Hyper = dict[str, float]
GRIDS: dict[str, tuple[Hyper, ...]] = {
    "l2-init": ({"coefficient": 1e-3}, {"coefficient": 1e-2}),
    "shrink-perturb": ({"coefficient": 0.2}, {"coefficient": 0.6}),
    "redo": ({"threshold": 0.025, "every": 100.0}, {"threshold": 0.1, "every": 100.0}),
    "swr-budget": ({"growth": 1.0}, {"growth": 1.5}),
}
"""what is tried of every method"""
REFERENCES = ("vanilla", "full-reset")
VANILLA, FRESH = "vanilla", "fresh agent"
BEGIN, END = "<!-- control study: begin -->", "<!-- control study: end -->"
Returns = Mapping[str, Sequence[float]]
"""of every task, by the identity of a run that is done"""


def config(column: str, method: str, hyper: Hyper, seed: int) -> RunConfig:
    """One run."""
    return configure(find_experiment(STREAM), find_column(column), method, hyper, seed)


def tuned(column: str) -> list[RunConfig]:
    """The references, which the setting is chosen by, and the grid of every method, on the tuning seed."""
    grid = [(method, hyper) for method, values in GRIDS.items() for hyper in values]
    return [config(column, *line, seed) for seed in TUNING for line in [*((name, {}) for name in REFERENCES), *grid]]


def best(column: str, method: str, done: Returns) -> Hyper:
    """What did best on the tuning seed."""

    def score(hyper: Hyper) -> float:
        runs = [config(column, method, hyper, seed) for seed in TUNING]
        return fmean(fmean(done[run.identity]) for run in runs)

    return max(GRIDS[method], key=score)


def rows(column: str, done: Returns) -> dict[str, list[RunConfig]]:
    """The reported runs by the title of their row."""
    found = {
        VANILLA: [config(column, "vanilla", {}, seed) for seed in REPORTED],
        FRESH: [config(column, "full-reset", {}, seed) for seed in REPORTED],
        "LayerNorm": [config(f"{column}ln", "vanilla", {}, seed) for seed in REPORTED],
    }
    for method in GRIDS:
        found[describe(method)[0]] = [config(column, method, best(column, method, done), seed) for seed in REPORTED]
    return found


def run(column: str, store: Store, workers: int) -> None:
    """Tune, then run the reported seeds; what is done is not done again."""

    def finals() -> list[RunConfig]:
        lines = rows(column, finished(store)).values()
        return [line[i] for i in range(len(REPORTED)) for line in lines]

    def tuning() -> list[RunConfig]:
        return tuned(column)

    for configs in (tuning, finals):
        estimator = Estimator(store.timings(provenance_of("cpu").host))
        with view(column, Console(stderr=True), estimator, workers) as shown:
            outcome = execute(configs(), store, workers=workers, view=shown)
        if outcome.failed or outcome.signal is not None:
            raise SystemExit(f"{column}: {len(outcome.failed)} failed, {len(outcome.left)} left: {outcome.failed[:1]}")


def finished(store: Store) -> dict[str, list[float]]:
    """The returns of the runs that are done."""
    done = [record.id for record in store.runs() if record.status == "done"]
    return {run: [LIMIT * epoch.train_accuracy for epoch in store.epochs(run)] for run in done}


def table(column: str, done: Returns) -> str:
    """Methods by average return, with 95 % intervals, and the difference to vanilla and to the fresh agent, seed by seed."""
    lines = rows(column, done)
    scores = {title: {run.seed: fmean(done[run.identity]) for run in runs} for title, runs in lines.items()}
    head = [column_title(column), "average return", "second half of the tasks", *(f"minus {name}" for name in (VANILLA, FRESH))]
    text = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for title, runs in lines.items():
        knob = f" ({runs[0].hyper_text})" if runs[0].hyper else ""
        late = [fmean(done[run.identity][len(run.epochs) // 2 :]) for run in runs]
        gains = [_gain(scores[title], scores[other]) if other != title else "" for other in (VANILLA, FRESH)]
        text.append("| " + " | ".join([title + knob, _cell(list(scores[title].values())), _cell(late), *gains]) + " |")
    return "\n".join(text)


def page(done: Returns, path: Path) -> None:
    """Write the tables of the agents that are done into a page, between its marks."""
    tables = [table(column, done) for column in COLUMNS if complete(column, done)]
    put_between(path, BEGIN, END, "\n\n".join(tables) + "\n")


def complete(column: str, done: Returns) -> bool:
    """Whether every run of an agent is done."""
    if any(run.identity not in done for run in tuned(column)):
        return False
    return all(run.identity in done for line in rows(column, done).values() for run in line)


def _cell(values: Sequence[float]) -> str:
    found = summary(values, (0.0, LIMIT))
    assert found is not None
    assert found.interval is not None
    return f"{found.mean:.1f} [{_range(found.interval)}]"


def _gain(ours: Mapping[int, float], others: Mapping[int, float]) -> str:
    found = paired(ours, others)
    assert found is not None
    assert found.interval is not None
    return f"{found.difference:+.1f} [{_range(found.interval, '+')}]"


def _range(interval: tuple[float, float], sign: str = "") -> str:
    return " to ".join(f"{end:{sign}.1f}" for end in interval)


def main() -> int:
    """Run, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    run_command = commands.add_parser("run", help="run what is missing")
    run_command.add_argument("store", type=Path)
    run_command.add_argument("columns", nargs="*", default=COLUMNS)
    run_command.add_argument("--workers", type=int, default=1)
    page_command = commands.add_parser("page", help="write docs/reinforcement.md again")
    page_command.add_argument("source", type=Path, nargs="?", default=ROOT / "results" / "rl", help="a store or its export")
    options = parser.parse_args()
    if options.command == "run":
        with Store(options.store) as store:
            for column in options.columns:
                run(column, store, options.workers)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "study.sqlite"
        merge(options.source, copy)
        with Store(copy) as store:
            page(finished(store), ROOT / "docs" / "reinforcement.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
