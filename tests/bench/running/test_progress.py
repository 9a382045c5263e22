"""What the user sees while runs are executed."""

from collections import Counter

from job_tasks import epoch
from rich.console import Console

from swr.bench import experiments
from swr.bench.experiments import RunConfig
from swr.bench.running import estimate, progress
from swr.bench.running.estimate import Estimator
from swr.bench.running.progress import view


def test_the_live_view_shows_bars_and_the_time_left(folder, monkeypatch):
    monkeypatch.setattr(progress, "REDRAW", 0.0)
    configs = experiments.expand("quickstart", seeds=1)
    with (folder / "screen").open("w+") as screen:
        console = Console(file=screen, force_terminal=True, width=120, color_system=None)
        with view("quickstart", console, Estimator(), workers=2) as live:
            live.open(configs, done=[configs[0].identity], begun={})
            live.began(configs[1])
            live.placed(configs[1], "node7")
            live.tick()
            live.epoch(configs[1], epoch(50, 200, seconds=1.0, test_accuracy=0.4321))
            live.tick()
            live.done(configs[1])
            live.failed(configs[2], "ValueError: [no] such thing")
            live.tick()
        screen.seek(0)
        text = screen.read()
    assert "1 of 5 runs done" in text
    assert "epoch 50/200" in text
    assert "digits-mlp vanilla seed 0  node7  epoch 50/200" in text
    assert "test 0.4321" in text
    assert "min" in text
    assert "✗ digits-mlp l2 λ=0.01 seed 0  ValueError: [no] such thing" in text


def test_lines_are_few_where_there_is_no_terminal(folder):
    configs = experiments.expand("quickstart", seeds=1)
    with (folder / "log").open("w+") as log:
        console = Console(file=log, width=40)
        lines = view("quickstart", console, Estimator(), workers=2)
        with lines:
            lines.open(configs, done=[], begun={})
            lines.began(configs[1])
            for number in range(1, 201):
                lines.epoch(configs[1], epoch(number, 200))
                lines.tick()
            lines.done(configs[1])
        log.seek(0)
        first, second = log.read().splitlines()
    assert first == "quickstart: 5 runs, 1 will take over the first stage of another"
    assert second == "✓ digits-mlp vanilla seed 0  test accuracy 20.0000  (1 of 5)"


def test_a_run_that_took_over_its_first_stage_says_so_and_teaches_no_time(folder):
    plain, other = experiments.expand("proportionality", columns=["digits-mlp"], methods=["vanilla", "naive-scaling"], seeds=1)[
        :2
    ]
    with (folder / "log").open("w+") as log:
        lines = view("proportionality", Console(file=log, width=40), Estimator(), workers=1)
        with lines:
            lines.open([plain, other], done=[], begun={})
            lines.began(other)
            for number in range(1, 101):
                lines.epoch(other, epoch(number, 150, seconds=0.0))
            assert lines.seconds_left() is None, "nothing was measured yet"
            lines.epoch(other, epoch(101, 150, stage=1, seconds=2.0))
            assert round(lines.seconds_left()) == 2 * (150 + 49)
            lines.done(other)
        log.seek(0)
        assert "seed 0  test accuracy 10.1000, its first 100 epochs taken over  (1 of 2)" in log.read()


def test_drawing_computes_only_what_an_epoch_has_changed(folder, monkeypatch):
    """The driver shares its cores with the runs: neither identities nor the cost of every epoch are computed at each tick."""
    configs = experiments.expand("permuted-pixels", columns=["digits-mlp"], methods=["vanilla", "swr"], seeds=3)
    monkeypatch.setattr(progress, "REDRAW", 0.0)
    with (folder / "screen").open("w+") as screen:
        console = Console(file=screen, force_terminal=True, width=120, color_system=None)
        with view("permuted-pixels", console, Estimator(), workers=2) as live:
            live.open(configs, done=[], begun={})
            live.began(configs[1])
            live.tick()
            calls = Counter()
            for owner, name in ((RunConfig, "to_dict"), (estimate, "_units")):
                monkeypatch.setattr(owner, name, counted(getattr(owner, name), calls, name))
            for number in range(1, 4):
                live.epoch(configs[1], epoch(number, configs[1].total, measures={"average online accuracy": 0.5}))
                for _ in range(5):
                    live.tick()
    assert calls == {"_units": 3}


def counted(function, calls, name):
    def call(*given):
        calls[name] += 1
        return function(*given)

    return call


def test_the_live_view_draws_a_few_times_a_second_however_short_an_epoch_is(folder, monkeypatch):
    configs = experiments.expand("quickstart", seeds=1)
    monkeypatch.setattr(progress, "REDRAW", 3600.0)
    with (folder / "screen").open("w+") as screen:
        console = Console(file=screen, force_terminal=True, width=120, color_system=None)
        with view("quickstart", console, Estimator(), workers=2) as live:
            live.open(configs, done=[], begun={})
            live.tick()
            drawn = []
            monkeypatch.setattr(live._live, "refresh", lambda: drawn.append(1))
            for _ in range(50):
                live.tick()
            assert not drawn
