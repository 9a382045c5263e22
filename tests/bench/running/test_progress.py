"""What the user sees while runs are executed."""

from job_tasks import epoch
from rich.console import Console

from swr.bench import experiments
from swr.bench.running.estimate import Estimator
from swr.bench.running.progress import view


def test_the_live_view_shows_bars_and_the_time_left(folder):
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
        assert log.read().splitlines() == ["quickstart: 5 runs", "✓ digits-mlp vanilla seed 0  test accuracy 20.0000  (1 of 5)"]
