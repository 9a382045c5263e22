"""Synthetic stores: plausible curves of every experiment, written through the store in a moment instead of trained for days."""

import math
import random
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import count, islice
from pathlib import Path

from job_tasks import epoch

from swr.bench import experiments
from swr.bench.experiments import RunConfig
from swr.bench.running.engines import claim
from swr.bench.store import Provenance, Record, Store
from swr.bench.training import Epoch
from swr.methods import L2
from swr.methods.registry import REGISTRY

SCRIPT = "<script>document.title = 'run'</script>"
HOSTILE = f"{SCRIPT}, \"quoted\" 'twice'\nand | a & second\tline \\ $x_1$ #1 100% {{}} ~^\r\nλ"
"""what a name or an error could hold at worst"""

FIGURES = ("warm-start", "continual-full", "continual-limited")
TABLES = ("generalization", "lr-decay")
SMALL = ("mnist-mlp", "cifar10-cnn")

HERE = Provenance({}, None, "host")

_claims: list[claim.Claim] = []


def make(path: Path, *, runs: int | None = None, epochs: int = 200, hostile: bool = False) -> None:
    """A store with finished runs of every experiment, a sweep on held-out data, and one failed, one running, one waiting run.

    runs: how many; by default the figures with two columns and three seeds, the tables with two columns and five.
    epochs: of every run (a tenth of them in each of ten stages); 200 is the paper's length for one and two stages.
    hostile: text that would break a page, a table or a file in errors, names of columns, layers, hosts and commits, and
        runs of the method :func:`hostile_method`, if it was registered.
    """
    configs = _default(epochs) if runs is None else list(islice(_endless(epochs), runs))
    origin = Provenance({"swr": "0.1", "torch": "2.13.0"}, "0123abc", "one")
    if hostile:
        configs += _hostile(epochs)
        origin = Provenance({"swr": HOSTILE}, HOSTILE, HOSTILE)
    with Store(path) as store:
        store.add(configs, origin)
        fail, run, wait = (len(configs) - 1, len(configs) // 2, len(configs) // 3) if len(configs) > 3 else (-1, -1, -1)
        for index, config in enumerate(configs):
            if index == wait:
                continue
            store.start(config.identity, origin)
            if index == fail:
                store.record(config.identity, curve(config)[: epochs // 4])
                store.fail(config.identity, traceback(HOSTILE if hostile else "the loss fell over"))
            elif index == run:
                store.record(config.identity, curve(config)[: max(1, epochs * 3 // 5)])
                _claims.append(_claim(store.folder / config.identity))
            else:
                store.record(config.identity, curve(config, layer=HOSTILE if hostile and index % 7 == 0 else "5.weight"))
                store.finish(config.identity, {"examples": 7, "labels": "abc"})


def finished(
    path: str | Path, configs: Sequence[RunConfig], accuracy: Callable[[RunConfig], float] = lambda config: 0.9
) -> None:
    """A store of runs that are done, each with its last epoch only."""
    with Store(path) as store:
        store.add(configs, HERE)
        for one in configs:
            last = epoch(one.total, one.total, test_accuracy=accuracy(one), validation_accuracy=0.5 if one.validation else None)
            store.record(one.identity, [last])
            store.finish(one.identity, {})


def records(*, seeds: int = 2, hostile: bool = False) -> list[Record]:
    """Finished runs of every experiment at full length, with their last epochs only and without a store."""
    configs = [c for name in (*FIGURES, *TABLES) for c in experiments.expand(name, columns=SMALL, seeds=seeds)]
    configs += experiments.sweep("generalization", "cifar100-cnnbn", "swr", seeds=seeds)
    configs += experiments.sweep("generalization", "mnist-mlp", "l2", seeds=seeds, select="test")
    configs += _hostile(200) if hostile else []
    origin = Provenance({}, None, "one")
    return [Record(c.identity, c, "done", None, origin, {}, 0.0, 1.0, 2.0, 3.0, curve(c)[-1]) for c in configs]


def curve(config: RunConfig, layer: str = "5.weight") -> list[Epoch]:
    """Epochs of a run that learns, forgets a little at each new stage, and whose weights grow unless its method minds."""
    draw = random.Random(config.identity)
    known = experiments.published("generalization", config.column, config.line)
    ceiling = (known.mean if known else 0.7) + draw.gauss(0, 0.006)
    growth = {"swr": 0.0, "swr-reinit": 0.02, "l2": 0.05, "l2-init": 0.08}.get(config.method, 0.4)
    stages = config.epochs[-1:] if config.cold else config.epochs
    found: list[Epoch] = []
    for stage, length in enumerate(stages):
        reach = ceiling * (0.85 + 0.15 * (stage + 1) / len(stages))
        for step in range(1, length + 1):
            number = len(found) + 1
            part = 1 - math.exp(-6 * step / length)
            accuracy = reach * ((0.8 if stage else 0.2) * (1 - part) + part) + draw.gauss(0, 0.003)
            norm = 10 + growth * number**0.7
            found.append(
                Epoch(
                    epoch=number,
                    stage=stage,
                    total=config.total,
                    train_loss=2.3 * math.exp(-3 * step / length) + draw.random() * 0.02,
                    train_accuracy=min(1.0, accuracy * 1.1),
                    test_accuracy=min(1.0, max(0.0, accuracy)),
                    validation_accuracy=min(1.0, accuracy + draw.gauss(0, 0.004)) if config.validation else None,
                    norms={"1.weight": norm, "3.weight": norm * 0.8, layer: norm * 0.3},
                    seconds=1.0 + draw.random() * 0.1,
                )
            )
    return found


def hostile_method(monkeypatch) -> str:
    """Register, for one test, a method whose name and title are a script; its name."""
    monkeypatch.setitem(REGISTRY, SCRIPT, type("Hostile", (L2,), {"title": SCRIPT}))
    return SCRIPT


def traceback(text: str) -> str:
    """What a failed run leaves behind."""
    return f'Traceback (most recent call last):\n  File "train.py", line 1, in <module>\nZeroDivisionError: {text}'


def first_schema(path: Path) -> None:
    """A store as the first version wrote it, with one finished run, word by word."""
    with closing(sqlite3.connect(path)) as db:
        db.executescript(FIRST_SCHEMA)


FIRST_SCHEMA = """
CREATE TABLE runs (id TEXT PRIMARY KEY, config TEXT NOT NULL, experiment TEXT NOT NULL, "column" TEXT NOT NULL,
    method TEXT NOT NULL, seed INTEGER NOT NULL, status TEXT NOT NULL, error TEXT, versions TEXT NOT NULL, "commit" TEXT,
    host TEXT NOT NULL, facts TEXT, created REAL NOT NULL, started REAL, finished REAL, seconds REAL) WITHOUT ROWID;
CREATE TABLE metrics (run TEXT NOT NULL REFERENCES runs (id), epoch INTEGER NOT NULL, stage INTEGER NOT NULL,
    total INTEGER NOT NULL, train_loss REAL, train_accuracy REAL, test_accuracy REAL, validation_accuracy REAL,
    norms TEXT NOT NULL, seconds REAL NOT NULL, PRIMARY KEY (run, epoch)) WITHOUT ROWID;
INSERT INTO runs VALUES ('ffc0431a99ab50b9', '{"batch_size": 256, "cold": false, "column": "mnist-mlp", "epochs": [200],
    "experiment": "generalization", "hyper": [], "label_noise": 0.0, "lr": 0.001, "lr_drops": [], "lr_factor": 0.1,
    "method": "vanilla", "scenario": "single", "seed": 0, "validation": 0.0}', 'generalization', 'mnist-mlp', 'vanilla', 0,
    'done', NULL, '{"torch": "2"}', 'abc', 'old', '{}', 1.0, 2.0, 3.0, 4.0);
INSERT INTO metrics VALUES ('ffc0431a99ab50b9', 200, 0, 200, 0.5, 0.9, 0.875, NULL, '{"1.weight": 3.0, "3.weight": null}',
    0.25);
PRAGMA application_id = 1398231585;
PRAGMA user_version = 1;
"""


def _default(epochs: int) -> list[RunConfig]:
    configs = [c for name in FIGURES for c in _expand(name, epochs, columns=SMALL, seeds=3)]
    configs += [c for name in TABLES for c in _expand(name, epochs, columns=SMALL, seeds=5)]
    configs += experiments.expand("quickstart", epochs_scale=epochs / 200)
    for column, method in (("mnist-mlp", "l2"), ("mnist-mlp", "swr"), ("cifar100-cnnbn", "swr")):
        configs += experiments.sweep("generalization", column, method, seeds=2, epochs_scale=epochs / 200)
    return configs


def _endless(epochs: int) -> Iterator[RunConfig]:
    """Seed after seed of every experiment, column and method."""
    for seed in count():
        for name in (*FIGURES, *TABLES):
            yield from _expand(name, epochs, seeds=[seed])


def _expand(experiment: str, epochs: int, **more) -> list[RunConfig]:
    return experiments.expand(experiment, epochs_scale=epochs / sum(experiments.find_experiment(experiment).epochs), **more)


def _hostile(epochs: int) -> list[RunConfig]:
    configs = experiments.expand(
        "generalization", columns=[f"folder:{HOSTILE}-cnn"], methods=["vanilla", "swr"], seeds=2, epochs_scale=epochs / 200
    )
    if SCRIPT in REGISTRY:
        configs += [
            RunConfig("generalization", "mnist-mlp", SCRIPT, (("coefficient", 0.5),), seed=seed, epochs=(epochs,))
            for seed in range(2)
        ]
    return configs


def _claim(folder: Path) -> claim.Claim:
    """Held until this process ends: to everyone else, a run that is being worked on."""
    taken = claim.take(folder)
    assert taken is not None
    return taken
