"""The study behind the growth budget: does one budget, the same everywhere, match every method at its own best coefficient?

    python tools/growth_study.py run STORE [SETTING …]     tune on the tuning seeds, then run the reported seeds once
    python tools/growth_study.py page                      write docs/growth.md's table and chart again, from results/growth

Every method gets the same number of configurations. They are compared on the tuning seeds: by the accuracy on a tenth of the
training data that is held out, or, for streams, by the average online accuracy, which is measured before each update. The best
one runs on other seeds, on all of the training data, and its test accuracy is reported once. The budget is also reported
untuned, with the library's default.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import altair as alt
import vl_convert
from altair.typing import ChartType
from rich.console import Console

from swr.bench.experiments import RunConfig
from swr.bench.experiments.study import Setting as Place
from swr.bench.report.charts.palette import style
from swr.bench.report.marked_text import put_between
from swr.bench.report.selection import best as best_of
from swr.bench.report.selection import finished, score
from swr.bench.report.statistics import summary
from swr.bench.running import Estimator, execute
from swr.bench.running.progress import view
from swr.bench.store import Store, provenance_of
from swr.bench.store.exchange import merge
from swr.methods import describe
from swr.rescaling.aim import DEFAULT_GROWTH

ROOT = Path(__file__).parents[1]
Hyper = tuple[tuple[str, float], ...]
Line = tuple[str, Hyper]

GRIDS: dict[str, tuple[str, tuple[float, ...]]] = {
    "l2": ("coefficient", (1e-4, 1e-3, 3e-3, 1e-2, 3e-2)),
    "l2-init": ("coefficient", (1e-4, 1e-3, 3e-3, 1e-2, 3e-2)),
    "shrink-perturb": ("coefficient", (0.1, 0.2, 0.4, 0.6, 0.8)),
    "swr": ("coefficient", (1e-4, 1e-3, 3e-3, 1e-2, 1e-1)),
    "swr-budget": ("growth", (1.0, 1.3, 1.7, 2.2, 3.0)),
}
"""the knob of every method and the five values that are tried"""


@dataclass(frozen=True)
class Setting(Place):
    """A column of the study's table."""

    tuned_on: str = ""
    """another setting whose choice is taken over, in place of one's own"""
    methods: Sequence[str] = tuple(GRIDS)
    references: Sequence[str] = ("vanilla",)
    extra: Sequence[Line] = ()
    """methods with fixed hyper-parameters, on the first five reported seeds"""

    def tuned(self) -> list[RunConfig]:
        """The grid of every method on the tuning seeds."""
        if self.tuned_on:
            return []
        grid = [(method, key, value) for method in self.methods for key, values in (GRIDS[method],) for value in values]
        return [self.config(m, ((key, value),), seed, tune=True) for seed in self.tuning for m, key, value in grid]

    def finals(self, best: Mapping[str, Hyper]) -> list[RunConfig]:
        """The chosen configurations, the default budget and the references on the reported seeds."""
        lines = [*((m, ()) for m in self.references), *best.items(), ("swr-budget", DEFAULT)]
        found = [self.config(method, hyper, seed) for seed in self.reported for method, hyper in lines]
        return found + [self.config(method, hyper, seed) for seed in self.reported[:5] for method, hyper in self.extra]


DEFAULT: Hyper = (("growth", DEFAULT_GROWTH),)
TEN = tuple(range(200, 210))
MIDDLE: Hyper = (("growth", 1.7),)
VARIANTS: tuple[Line, ...] = (
    ("swr-budget", MIDDLE),
    ("examples.budgets:InitialBudget", MIDDLE),
    ("examples.budgets:MovedBudget", MIDDLE),
    ("examples.budgets:AutoBudget", MIDDLE),
)
AVERAGED: tuple[Line, ...] = (("ema", ()), ("swr-budget+ema", (("swr-budget.growth", DEFAULT_GROWTH),)))
TANGENTIAL, RADIAL = (f"examples.radial_tangential:{name}" for name in ("TangentialL2", "RadialL2"))
PARTS: tuple[Line, ...] = (
    (RADIAL, (("coefficient", 1e-2),)),
    (TANGENTIAL, (("coefficient", 1e-2),)),
    (f"swr-budget+{TANGENTIAL}", ((f"{TANGENTIAL}.coefficient", 1e-2), ("swr-budget.growth", DEFAULT_GROWTH))),
)
"""what L2 at its best coefficient does to the norms alone, to the directions alone, and the latter beside a budget"""
FIXED: tuple[Line, ...] = (("l2", (("coefficient", 3e-2),)), ("swr-budget", (("growth", 1.0),)))
"""the two lines of an earlier comparison on four other seeds, to be confirmed"""
PASS, FREE = (f"examples.budgets:{name}" for name in ("PassBudget", "FreeBudget"))
MODES: tuple[Line, ...] = ((PASS, DEFAULT), (FREE, DEFAULT), (FREE, (("growth", 1.0),)))
NORMS = ("l2", "swr", "swr-budget")

STUDY: dict[str, Setting] = {
    one.name: one
    for one in (
        Setting(
            "permuted-pixels",
            "permuted pixels (digits, MLP)",
            "permuted-pixels",
            "digits-mlp",
            tuning=(100, 101),
            reported=TEN,
            references=("vanilla", "full-reset"),
            extra=(*VARIANTS, *PARTS),
        ),
        Setting(
            "lr-decay",
            "step decay (CIFAR-10, CNN)",
            "lr-decay",
            "cifar10-cnn",
            scale=0.25,
            examples=4000,
            tuning=(100, 101),
            methods=NORMS,
        ),
        Setting(
            "warm-start",
            "warm start (MNIST, MLP)",
            "warm-start",
            "mnist-mlp",
            scale=0.5,
            examples=6000,
            references=("vanilla", "cold"),
            extra=(*VARIANTS, *AVERAGED),
        ),
        Setting(
            "limited",
            "limited access (MNIST, MLP)",
            "continual-limited",
            "mnist-mlp",
            scale=0.2,
            examples=6000,
            extra=(*VARIANTS, *AVERAGED),
        ),
        Setting(
            "random-labels",
            "random labels (digits, MLP)",
            "random-labels",
            "digits-mlp",
            references=("vanilla", "full-reset"),
            extra=VARIANTS,
        ),
        Setting(
            "generalization",
            "constant rate (MNIST, MLP)",
            "generalization",
            "mnist-mlp",
            scale=0.25,
            examples=6000,
            extra=AVERAGED,
        ),
        Setting(
            "lr-cosine",
            "cosine (CIFAR-10, CNN)",
            "lr-cosine",
            "cifar10-cnn",
            scale=0.25,
            examples=4000,
            methods=NORMS,
            tuned_on="lr-decay",
            reported=tuple(range(200, 203)),
        ),
        Setting(
            "lead",
            "step decay, 150 epochs (CIFAR-10, CNN)",
            "lr-decay",
            "cifar10-cnn",
            scale=0.75,
            examples=4000,
            methods=(),
            extra=FIXED,
        ),
        Setting(
            "vit",
            "warm start (CIFAR-10, ViT)",
            "warm-start",
            "cifar10-vit",
            scale=0.1,
            examples=4000,
            reported=tuple(range(200, 203)),
            methods=(),
            references=("vanilla", "cold"),
            extra=MODES,
        ),
        Setting(
            "cnnbn",
            "step decay (CIFAR-10, CNN-BN)",
            "lr-decay",
            "cifar10-cnnbn",
            scale=0.25,
            examples=4000,
            methods=NORMS,
            reported=tuple(range(200, 203)),
        ),
    )
}
"""in the order in which they are run"""


def chosen(setting: Setting, store: Store) -> dict[str, Hyper]:
    """The best configuration of every method on the tuning seeds, once all of them are done."""
    records = finished(store)
    found = {m: best_of([config for config in setting.tuned() if config.method == m], records) for m in setting.methods}
    return {method: point for method, point in found.items() if point is not None}


def run(setting: Setting, store: Store, data: Path | None, workers: int) -> None:
    """Tune, then run the reported seeds; what is done is not done again."""
    tuned = STUDY[setting.tuned_on] if setting.tuned_on else setting
    for configs in (tuned.tuned, lambda: setting.finals(chosen(tuned, store))):
        estimator = Estimator(store.timings(provenance_of("cpu").host))
        with view(setting.name, Console(stderr=True), estimator, workers) as shown:
            outcome = execute(configs(), store, workers=workers, data=data, view=shown)
        if outcome.failed or outcome.signal is not None:
            raise SystemExit(f"{setting.name}: {len(outcome.failed)} failed, {len(outcome.left)} left: {outcome.failed[:1]}")


ORDER = ("vanilla", "full-reset", "cold", "l2", "l2-init", "shrink-perturb", "swr", "swr-budget")
TITLES = {"vanilla": "vanilla", "full-reset": "fresh network for every task", "cold": "fresh network, all data"}
CAP, INITIAL, MOVED, AUTO = VARIANTS
EMA, BUDGET_EMA = AVERAGED
ROWS: dict[Line, str] = {
    EMA: "vanilla, averaged copy",
    BUDGET_EMA: f"SWR, budget {DEFAULT_GROWTH:g}, averaged copy",
    CAP: "ρ = 1.7: balanced anchors, cap (the library's)",
    INITIAL: "ρ = 1.7: initial anchors, cap",
    MOVED: "ρ = 1.7: moved to the balanced norms at once, cap",
    AUTO: "ρ = 1.7: balanced anchors, automatic λ",
    PARTS[0]: "what L2 (0.01) does to the norms, alone",
    PARTS[1]: "what L2 (0.01) does to the directions, alone",
    PARTS[2]: f"the latter beside SWR, budget {DEFAULT_GROWTH:g}",
    FIXED[0]: "L2, λ = 0.03, not chosen here",
    FIXED[1]: "SWR, budget 1, not chosen here",
    MODES[0]: f"SWR, budget {DEFAULT_GROWTH:g}, pass",
    MODES[1]: f"SWR, budget {DEFAULT_GROWTH:g}, free",
    MODES[2]: "SWR, budget 1, free",
}
"""the rows below the methods"""
UNTUNED: Line = ("swr-budget", DEFAULT)
PLAIN: Line = ("vanilla", ())
PAIRS: dict[str, tuple[Line, Line]] = {
    "default budget over vanilla": (UNTUNED, PLAIN),
    "balanced anchors over initial ones": (CAP, INITIAL),
    "automatic λ over the cap": (AUTO, CAP),
    "moved at once over not": (MOVED, CAP),
    "averaged copy over none, vanilla": (EMA, PLAIN),
    "averaged copy over none, default budget": (BUDGET_EMA, UNTUNED),
    "budget 1 over L2 0.03": (FIXED[1], FIXED[0]),
    "pass over hold, default budget": (MODES[0], UNTUNED),
    "free over hold, default budget": (MODES[1], UNTUNED),
    "free, budget 1, over vanilla": (MODES[2], PLAIN),
}
"""rows that differ in one thing, compared seed by seed"""
BEGIN, END = "<!-- growth study: begin -->", "<!-- growth study: end -->"


@dataclass(frozen=True)
class Finding:
    """What a setting's runs say."""

    setting: Setting
    best: Mapping[str, Hyper]
    lines: Mapping[tuple[str, Hyper], Mapping[int, float]]
    """the reported score by method and hyper-parameters, by seed"""
    tried: Mapping[str, Sequence[tuple[float, float]]]
    """on the tuning seeds: the knob's values and their mean scores, by method"""

    def scores(self, method: str) -> Mapping[int, float]:
        """A method at its best configuration."""
        return self.lines.get((method, self.best.get(method, ())), {})

    @property
    def default(self) -> Mapping[int, float]:
        """The budget as it comes."""
        return self.lines.get(("swr-budget", DEFAULT), {})


def findings(store: Store) -> list[Finding]:
    """The settings of which every run is done."""
    records = finished(store)
    found = []
    for setting in STUDY.values():
        tuned = STUDY[setting.tuned_on] if setting.tuned_on else setting
        best = chosen(tuned, store)
        finals = setting.finals(best)
        if len(best) < len(tuned.methods) or any(config.identity not in records for config in finals):
            continue
        lines: dict[tuple[str, Hyper], dict[int, float]] = {}
        for config in finals:
            lines.setdefault((config.line, config.hyper), {})[config.seed] = score(config, records)
        tried: dict[str, list[tuple[float, float]]] = {}
        for method in setting.methods if not setting.tuned_on else ():
            for value in GRIDS[method][1]:
                same = [score(c, records) for c in setting.tuned() if c.method == method and c.hyper[0][1] == value]
                tried.setdefault(method, []).append((value, sum(same) / len(same)))
        found.append(Finding(setting, best, lines, tried))
    return found


def table(found: Sequence[Finding]) -> str:
    """Methods by settings, each method at its own best configuration; the untuned budget last."""
    rows = [["", *(one.setting.title for one in found)]]
    for method in ORDER:
        if any(one.scores(method) for one in found):
            title = TITLES.get(method) or f"{describe(method)[0]}, best of five"
            rows.append([title, *(_cell(one.scores(method), one.best.get(method, ())) for one in found)])
    rows.append([f"**SWR, budget {DEFAULT_GROWTH:g}, untuned**", *(_cell(one.default) for one in found)])
    for line, label in ROWS.items():
        if any(line in one.setting.extra for one in found):
            rows.append([label, *(_cell(_first(one, line)) for one in found)])
    rows.append(["seeds", *(str(len(one.setting.reported)) for one in found)])
    return _markdown(rows)


def differences(found: Sequence[Finding]) -> str:
    """Rows that differ in one thing, seed by seed: mean difference and its 95 % interval."""
    rows = [["", *(one.setting.title for one in found)]]
    for label, (first, second) in PAIRS.items():
        cells = [_gap(one.lines.get(first, {}), one.lines.get(second, {})) for one in found]
        if any(cells):
            rows.append([label, *cells])
    return _markdown(rows)


def verdicts(found: Sequence[Finding]) -> str:
    """The untuned budget against the best other method of each setting, pair by pair."""
    lines = []
    for one in found:
        rivals = {(m, one.best.get(m, ())): one.scores(m) for m in ("vanilla", *one.best)}
        rivals |= {line: _first(one, line) for line in FIXED if line in one.setting.extra}
        means = {line: sum(scores.values()) / len(scores) for line, scores in rivals.items() if line[0] != "swr-budget"}
        rival = max(means, key=means.__getitem__)
        gaps = [one.default[seed] - value for seed, value in rivals[rival].items()]
        gap = summary(gaps)
        assert gap is not None
        assert gap.interval is not None
        low, high = gap.interval
        word = "ahead of" if low > 0 else "behind" if high < 0 else "level with"
        method, hyper = rival
        name = describe(method)[0] + (f" ({_knob(hyper)})" if hyper else "")
        lines.append(
            f"- {one.setting.title}: {word} {name}, {gap.mean:+.4f}, 95 % interval {low:+.4f} to {high:+.4f}, "
            f"{len(gaps)} pairs."
        )
    return "\n".join(lines)


def sensitivity(found: Sequence[Finding]) -> ChartType:
    """Score against knob, every knob over its own five values: the flatter, the less there is to tune."""
    methods = [m for m in ORDER if any(m in one.tried for one in found)]
    rows = [
        {
            "setting": one.setting.title,
            "method": describe(method)[0],
            "place": i,
            "knob": f"{describe(method)[1][GRIDS[method][0]]} = {value:g}",
            "lost": max(s for pairs in one.tried.values() for _, s in pairs) - score,
        }
        for one in found
        for method, pairs in one.tried.items()
        for i, (value, score) in enumerate(pairs, 1)
    ]
    titles = [describe(m)[0] for m in methods]
    colours = ["#222222" if m == "swr-budget" else style(m).light for m in methods]
    line = (
        alt.Chart(width=230, height=170)
        .mark_line(point=True)
        .encode(
            x=alt.X("place:O", title="the five values of the knob, in order"),
            y=alt.Y("lost:Q", title="below the best of all", scale=alt.Scale(reverse=True)),
            color=alt.Color("method:N", sort=titles, scale=alt.Scale(domain=titles, range=colours), title=None),
            tooltip=["method:N", "knob:N", alt.Tooltip("lost:Q", format=".4f")],
        )
    )
    layered = alt.layer(line, data=alt.InlineData(values=rows))
    chart: ChartType = layered.facet(alt.Facet("setting:N", title=None), columns=2).resolve_scale(y="independent")
    return chart


def page(found: Sequence[Finding], path: Path) -> None:
    """Write the table, the verdicts and the chart into a page, between its marks."""
    parts = [
        table(found),
        "The untuned budget against the best other method of each column, pair by pair:",
        verdicts(found),
        "Rows that differ in one thing, pair by pair, with 95 % intervals:",
        differences(found),
    ]
    put_between(path, BEGIN, END, "\n\n".join(parts) + "\n")
    figure = path.parent / "charts" / "growth-sensitivity.svg"
    figure.write_text(vl_convert.vegalite_to_svg(sensitivity(found).to_json()), encoding="utf-8")


def _first(one: Finding, line: Line) -> Mapping[int, float]:
    """The scores of a row that is compared on the first five seeds."""
    asked = line in one.setting.extra
    return {seed: value for seed, value in one.lines.get(line, {}).items() if asked and seed in one.setting.reported[:5]}


def _gap(first: Mapping[int, float], second: Mapping[int, float]) -> str:
    found = summary([value - second[seed] for seed, value in first.items() if seed in second])
    if found is None or found.interval is None:
        return ""
    low, high = found.interval
    return f"{found.mean:+.4f} ({low:+.4f} to {high:+.4f})"


def _markdown(rows: Sequence[Sequence[str]]) -> str:
    head, *body = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([head, "|---" * len(rows[0]) + "|", *body])


def _cell(scores: Mapping[int, float], hyper: Hyper = ()) -> str:
    found = summary(list(scores.values()))
    if found is None:
        return ""
    spread = "" if found.std is None else f" ± {found.std:.4f}"
    return f"{found.mean:.4f}{spread}" + (f" ({_knob(hyper)})" if hyper else "")


def _knob(hyper: Hyper) -> str:
    return ", ".join(f"{value:g}" for _, value in hyper)


def main() -> int:
    """Run, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    run_command = commands.add_parser("run", help="run what is missing")
    run_command.add_argument("store", type=Path)
    run_command.add_argument("names", nargs="*", help="settings of the study; all by default")
    run_command.add_argument("--data", type=Path)
    run_command.add_argument("--workers", type=int, default=1)
    page_command = commands.add_parser("page", help="write docs/growth.md again")
    page_command.add_argument("source", type=Path, nargs="?", default=ROOT / "results" / "growth", help="a store or its export")
    options = parser.parse_args()
    if options.command == "run":
        with Store(options.store) as store:
            for setting in [one for name, one in STUDY.items() if not options.names or name in options.names]:
                run(setting, store, options.data, options.workers)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "study.sqlite"
        merge(options.source, copy)
        with Store(copy) as store:
            page(findings(store), ROOT / "docs" / "growth.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
