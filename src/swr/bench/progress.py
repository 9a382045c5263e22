"""What a person sees while runs go on: a live view on a terminal, plain lines elsewhere."""

import time
from collections.abc import Mapping, Sequence
from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from swr.bench.config import RunConfig
from swr.bench.estimate import Estimator, duration
from swr.bench.online import in_words
from swr.bench.training import Epoch


class View(Protocol):
    """Is told what happens to runs; ``tick`` comes several times a second."""

    def open(self, configs: Sequence[RunConfig], done: Sequence[str], begun: Mapping[str, Epoch]) -> None:
        """All runs of this invocation, which of them are done, and how far others came before."""

    def began(self, config: RunConfig) -> None:
        """A run begins or goes on."""

    def epoch(self, config: RunConfig, epoch: Epoch) -> None:
        """An epoch has ended."""

    def done(self, config: RunConfig) -> None:
        """A run has ended well."""

    def failed(self, config: RunConfig, reason: str) -> None:
        """A run has ended with an error."""

    def stopped(self, config: RunConfig) -> None:
        """A run was interrupted."""

    def elsewhere(self, config: RunConfig) -> None:
        """Another process has the run."""

    def note(self, text: str) -> None:
        """A message that stays."""

    def tick(self) -> None:
        """Time has passed."""


class Silent:
    """Shows nothing; the other views build on it."""

    def open(self, configs: Sequence[RunConfig], done: Sequence[str], begun: Mapping[str, Epoch]) -> None:
        """Nothing."""

    def began(self, config: RunConfig) -> None:
        """Nothing."""

    def epoch(self, config: RunConfig, epoch: Epoch) -> None:
        """Nothing."""

    def done(self, config: RunConfig) -> None:
        """Nothing."""

    def failed(self, config: RunConfig, reason: str) -> None:
        """Nothing."""

    def stopped(self, config: RunConfig) -> None:
        """Nothing."""

    def elsewhere(self, config: RunConfig) -> None:
        """Nothing."""

    def note(self, text: str) -> None:
        """Nothing."""

    def tick(self) -> None:
        """Nothing."""


class Lines(Silent):
    """Keeps count, says what ended in a line each, and how far everything is once in a while.

    title: what is being run.
    console: where lines go.
    estimator: knows the time to the end.
    workers: processes at work.
    every: seconds between two lines on the progress; it grows, so that a long log stays short.
    """

    def __init__(self, title: str, console: Console, estimator: Estimator, workers: int, every: float = 10.0) -> None:
        self.title, self.console, self.estimator, self.workers = title, console, estimator, workers
        self.every = every
        self.running: dict[str, RunConfig] = {}
        self.last: dict[str, Epoch] = {}
        self.waiting: dict[str, RunConfig] = {}
        self.clock: dict[str, float] = {}
        self.others: set[str] = set()
        self.total = self.finished = self.failures = 0
        self.spent = 0.0
        self.spoke = time.monotonic()

    def __enter__(self) -> "Lines":
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to take down."""

    def open(self, configs: Sequence[RunConfig], done: Sequence[str], begun: Mapping[str, Epoch]) -> None:
        """Count what is to do, and say so."""
        self.total, self.finished = len(configs), len(done)
        self.last = dict(begun)
        known = set(done)
        self.waiting = {c.identity: c for c in configs if c.identity not in known}
        self.spent = sum(self.estimator.whole(c) for c in configs if c.identity in known)
        before = f", {len(done)} of them done before" if done else ""
        again = f", {len(begun)} to be continued" if begun else ""
        plural = "run" if self.total == 1 else "runs"
        self.say(f"{self.title}: {self.total} {plural}{before}{again}")

    def began(self, config: RunConfig) -> None:
        """The run joins those that are running."""
        self.waiting.pop(config.identity, None)
        self.others.discard(config.identity)
        self.running[config.identity] = config
        self.clock[config.identity] = time.monotonic()

    def epoch(self, config: RunConfig, epoch: Epoch) -> None:
        """Remember the newest epoch, and what it took."""
        self.estimator.measured(config, epoch)
        begin = self.clock.pop(config.identity, None)
        if begin is not None and epoch.epoch == 1:
            self.estimator.started(max(0.0, time.monotonic() - begin - epoch.seconds))
        self.last[config.identity] = epoch

    def done(self, config: RunConfig) -> None:
        """Say how the run ended."""
        last = self.last.get(config.identity)
        result = in_words(config.scenario, last) if last and config.identity in self.running else "done elsewhere"
        self._leave(config)
        self.finished += 1
        self.spent += self.estimator.whole(config)
        self.say(f"✓ {escape(short(config))}  {result}  ({self.finished} of {self.total})", "green")

    def failed(self, config: RunConfig, reason: str) -> None:
        """Say what went wrong."""
        self._leave(config)
        self.failures += 1
        self.say(f"✗ {escape(short(config))}  {escape(reason)}", "red")

    def stopped(self, config: RunConfig) -> None:
        """The run waits again."""
        self._leave(config)
        self.waiting[config.identity] = config

    def elsewhere(self, config: RunConfig) -> None:
        """Said once per run."""
        if config.identity not in self.others:
            self.others.add(config.identity)
            self.say(f"  {escape(short(config))}  another process is working on it")

    def note(self, text: str) -> None:
        """A line."""
        self.say(f"! {escape(text)}", "yellow")

    def tick(self) -> None:
        """Say how far everything is, when it is time."""
        if time.monotonic() - self.spoke >= self.every:
            self.say(f"  {self.summary()}" + "".join(f" | {self.detail(config)}" for config in self.running.values()))
            self.every = min(300.0, self.every * 1.5)

    def say(self, line: str, style: str = "") -> None:
        """Print a line, whole."""
        self.spoke = time.monotonic()
        self.console.print(f"[{style}]{line}[/]" if style else line, highlight=False, soft_wrap=True)

    def seconds_left(self) -> float | None:
        """The time to the end, or None as long as nothing is measured."""
        todo = [*self.running.values(), *self.waiting.values()]
        return self.estimator.remaining([(c, self.last.get(c.identity)) for c in todo], self.workers)

    def fraction(self) -> float:
        """How much of the work is done, in time."""
        todo = [*self.running.values(), *self.waiting.values()]
        left = self.estimator.work([(c, self.last.get(c.identity)) for c in todo])
        whole = self.spent + sum(self.estimator.whole(c) for c in todo)
        return 1.0 - left / whole if whole else 0.0

    def summary(self) -> str:
        """One phrase on everything."""
        left = self.seconds_left()
        failed = f", {self.failures} failed" if self.failures else ""
        time_left = "measuring the time" if left is None else f"about {duration(left)} left"
        return f"{self.fraction():.0%}, {self.finished} of {self.total} runs done{failed}, {time_left}"

    def detail(self, config: RunConfig) -> str:
        """One phrase on a run."""
        last = self.last.get(config.identity)
        numbers = (
            f"epoch {last.epoch}/{last.total} loss {last.train_loss:.4f} {in_words(config.scenario, last, short=True)}"
            if last
            else "starting"
        )
        return f"{short(config)} {numbers}"

    def _leave(self, config: RunConfig) -> None:
        self.running.pop(config.identity, None)
        self.waiting.pop(config.identity, None)


class Bars(Lines):
    """The live view: one bar for everything, one line per running run, what ended scrolls by above."""

    def __enter__(self) -> "Bars":
        self._live = Live(console=self.console, auto_refresh=False, transient=True, get_renderable=self._render)
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Take the bars down."""
        self._live.stop()

    def tick(self) -> None:
        """Draw."""
        self._live.refresh()

    def _render(self) -> RenderableType:
        wide = self.console.width >= 100
        head = Text.assemble((self.title, "bold"), "  ", self.summary(), no_wrap=True, overflow="ellipsis")
        bar = Table.grid()
        bar.add_row(ProgressBar(total=1.0, completed=self.fraction(), width=min(60, self.console.width)))
        grid = Table.grid(padding=(0, 2))
        for config in self.running.values():
            last = self.last.get(config.identity)
            name = Text(short(config), no_wrap=True, overflow="ellipsis")
            if last is None:
                grid.add_row(name, Text("starting", style="dim"))
                continue
            grid.add_row(
                name,
                Text(f"epoch {last.epoch}/{last.total}", style="cyan", no_wrap=True),
                Text(f"loss {last.train_loss:.4f}", no_wrap=True),
                Text(in_words(config.scenario, last, short=True), style="green", no_wrap=True),
                *([ProgressBar(total=last.total, completed=last.epoch, width=12)] if wide else []),
            )
        return Group(head, bar, grid)


def view(title: str, console: Console, estimator: Estimator, workers: int) -> Lines:
    """Bars on a terminal, lines elsewhere; to be used in a ``with`` statement."""
    return (Bars if console.is_terminal else Lines)(title, console, estimator, workers)


def short(config: RunConfig) -> str:
    """The label without the experiment, which stands in the title."""
    return config.label.removeprefix(config.experiment).strip()
