"""What the user sees while runs are executed: a live view on a terminal, plain lines elsewhere."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from swr.bench.experiments import RunConfig
from swr.bench.running.estimate import Estimator
from swr.bench.running.first_stages import followers
from swr.bench.training import Epoch
from swr.bench.training.online import in_words
from swr.bench.words import duration, plural

REDRAW = 0.2  # seconds between two pictures of the live view


class View:
    """Receives what happens to runs; ``tick`` is called several times a second. This one shows nothing."""

    def open(self, configs: Sequence[RunConfig], done: Sequence[str], begun: Mapping[str, Epoch]) -> None:
        """All runs of this invocation, which of them are done, and the last epoch of those that were begun before."""

    def began(self, config: RunConfig) -> None:
        """A run starts or continues."""

    def placed(self, config: RunConfig, node: str) -> None:
        """The run executes on this node of a cluster."""

    def epoch(self, config: RunConfig, epoch: Epoch) -> None:
        """An epoch has ended."""

    def done(self, config: RunConfig) -> None:
        """A run is done."""

    def failed(self, config: RunConfig, reason: str) -> None:
        """A run has ended with an error."""

    def stopped(self, config: RunConfig) -> None:
        """A run was interrupted."""

    def elsewhere(self, config: RunConfig) -> None:
        """Another process executes the run."""

    def note(self, text: str) -> None:
        """A message to show."""

    def tick(self) -> None:
        """Time has passed."""


class Lines(View):
    """Prints a line for every run that ends, and the overall progress from time to time.

    Args:
        title: What is being run.
        console: Where lines are printed.
        estimator: Computes the remaining time.
        workers: Number of processes.
        every: Seconds between two lines on the progress; it grows, so that a long log stays short.
    """

    def __init__(self, title: str, console: Console, estimator: Estimator, workers: int, every: float = 10.0) -> None:
        self.title, self.console, self.estimator, self.workers = title, console, estimator, workers
        self.every = every
        self.running: dict[str, RunConfig] = {}
        self.last: dict[str, Epoch] = {}
        self.waiting: dict[str, RunConfig] = {}
        self.clock: dict[str, float] = {}
        self.nodes: dict[str, str] = {}
        self.others: set[str] = set()
        self.taken_over: Counter[str] = Counter()
        self.total = self.finished = self.failures = 0
        self.spent = 0.0
        self.spoke = time.monotonic()

    def __enter__(self) -> "Lines":
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing."""

    def open(self, configs: Sequence[RunConfig], done: Sequence[str], begun: Mapping[str, Epoch]) -> None:
        """Print how much is to be done."""
        self.total, self.finished = len(configs), len(done)
        self.last = dict(begun)
        known = set(done)
        self.waiting = {c.identity: c for c in configs if c.identity not in known}
        sharing = followers(self.waiting.values())
        self.estimator.spare(sharing)
        self.spent = sum(self.estimator.whole(c) for c in configs if c.identity in known)
        before = f", {len(done)} of them done before" if done else ""
        again = f", {len(begun)} to be continued" if begun else ""
        shared = f", {len(sharing)} will take over the first stage of another" if sharing else ""
        self.say(f"{self.title}: {plural(self.total, 'run')}{before}{again}{shared}")

    def began(self, config: RunConfig) -> None:
        """Add the run to those that are running."""
        self.waiting.pop(config.identity, None)
        self.others.discard(config.identity)
        self.running[config.identity] = config
        self.clock[config.identity] = time.monotonic()

    def placed(self, config: RunConfig, node: str) -> None:
        """Keep the node, and measure the time to the first epoch from here."""
        self.nodes[config.identity] = node
        self.clock[config.identity] = time.monotonic()

    def epoch(self, config: RunConfig, epoch: Epoch) -> None:
        """Keep the newest epoch, and the time it took."""
        self.estimator.measured(config, epoch)
        self.taken_over[config.identity] += not epoch.seconds
        begin = self.clock.pop(config.identity, None)
        if begin is not None and epoch.epoch == 1:
            self.estimator.started(max(0.0, time.monotonic() - begin - epoch.seconds))
        self.last[config.identity] = epoch

    def done(self, config: RunConfig) -> None:
        """Print the result of the run."""
        last = self.last.get(config.identity)
        result = in_words(config, last) if last and config.identity in self.running else "done elsewhere"
        if epochs := self.taken_over[config.identity]:
            result += f", its first {plural(epochs, 'epoch')} taken over"
        self._leave(config)
        self.finished += 1
        self.spent += self.estimator.whole(config)
        self.say(f"✓ {escape(short(config))}  {result}  ({self.finished} of {self.total})", "green")

    def failed(self, config: RunConfig, reason: str) -> None:
        """Print what went wrong."""
        self._leave(config)
        self.failures += 1
        self.say(f"✗ {escape(short(config))}  {escape(reason)}", "red")

    def stopped(self, config: RunConfig) -> None:
        """The run waits again."""
        self._leave(config)
        self.waiting[config.identity] = config

    def elsewhere(self, config: RunConfig) -> None:
        """Printed once per run."""
        if config.identity not in self.others:
            self.others.add(config.identity)
            self.say(f"  {escape(short(config))}  another process is working on it")

    def note(self, text: str) -> None:
        """A line."""
        self.say(f"! {escape(text)}", "yellow")

    def tick(self) -> None:
        """Print the overall progress, when it is time."""
        if time.monotonic() - self.spoke >= self.every:
            self.say(f"  {self.summary()}" + "".join(f" | {self.detail(config)}" for config in self.running.values()))
            self.every = min(300.0, self.every * 1.5)

    def say(self, line: str, style: str = "") -> None:
        """Print a line without wrapping it."""
        self.spoke = time.monotonic()
        self.console.print(f"[{style}]{line}[/]" if style else line, highlight=False, soft_wrap=True)

    def seconds_left(self) -> float | None:
        """The remaining time, or None while nothing is measured."""
        todo = [*self.running.values(), *self.waiting.values()]
        return self.estimator.remaining([(c, self.last.get(c.identity)) for c in todo], self.workers)

    def fraction(self) -> float:
        """The part of the work that is done, measured in time."""
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
            f"epoch {last.epoch}/{last.total} loss {last.train_loss:.4f} {in_words(config, last, short=True)}"
            if last
            else "starting"
        )
        return " ".join(filter(None, (short(config), self.nodes.get(config.identity), numbers)))

    def _leave(self, config: RunConfig) -> None:
        self.running.pop(config.identity, None)
        self.waiting.pop(config.identity, None)
        self.nodes.pop(config.identity, None)


class Bars(Lines):
    """The live view: one bar for everything, one line for each running run; what ended is printed above."""

    _drawn = 0.0

    def __enter__(self) -> "Bars":
        self._live = Live(console=self.console, auto_refresh=False, transient=True, get_renderable=self._render)
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the bars."""
        self._live.stop()

    def tick(self) -> None:
        """Draw, at most every REDRAW seconds: epochs of small networks end more often."""
        if time.monotonic() - self._drawn >= REDRAW:
            self._live.refresh()
            self._drawn = time.monotonic()

    def _render(self) -> RenderableType:
        wide = self.console.width >= 100
        head = Text.assemble((self.title, "bold"), "  ", self.summary(), no_wrap=True, overflow="ellipsis")
        bar = Table.grid()
        bar.add_row(ProgressBar(total=1.0, completed=self.fraction(), width=min(60, self.console.width)))
        grid = Table.grid(padding=(0, 2))
        for config in self.running.values():
            last = self.last.get(config.identity)
            name = Text(short(config), no_wrap=True, overflow="ellipsis")
            node = [Text(self.nodes.get(config.identity, ""), style="dim", no_wrap=True)] if self.nodes else []
            if last is None:
                grid.add_row(name, *node, Text("starting", style="dim"))
                continue
            grid.add_row(
                name,
                *node,
                Text(f"epoch {last.epoch}/{last.total}", style="cyan", no_wrap=True),
                Text(f"loss {last.train_loss:.4f}", no_wrap=True),
                Text(in_words(config, last, short=True), style="green", no_wrap=True),
                *([ProgressBar(total=last.total, completed=last.epoch, width=12)] if wide else []),
            )
        return Group(head, bar, grid)


def view(title: str, console: Console, estimator: Estimator, workers: int) -> Lines:
    """Bars on a terminal, lines elsewhere; to be used in a ``with`` statement."""
    return (Bars if console.is_terminal else Lines)(title, console, estimator, workers)


def short(config: RunConfig) -> str:
    """The label without the experiment, which is in the title."""
    return config.label.removeprefix(config.experiment).strip()
