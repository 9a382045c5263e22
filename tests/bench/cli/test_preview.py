"""What a dry run prints."""

from stores import finished

from swr.bench import experiments


def test_a_dry_run_lists_and_estimates_and_leaves_nothing(swr, folder):
    code, out, _ = swr("run quickstart --seeds 1 --dry-run --workers 2")
    assert code == 0
    assert out.count(" new\n") == 4
    assert out.count(" new, stage 1 shared\n") == 1, "that of Shrink & Perturb is vanilla's"
    assert "5 runs, 5 to do, 480 epochs" in out, "cold 60, three of 120, one of the last 60"
    assert "time: about" in out
    assert list(folder.iterdir()) == []


def test_a_dry_run_knows_what_is_done(swr):
    finished("swr.sqlite", experiments.expand("quickstart", seeds=1)[:2])
    _, out, _ = swr("run quickstart --seeds 1 --dry-run")
    assert out.count(" done\n") == 2
    assert "5 runs, 3 to do" in out


def test_a_dry_run_says_that_an_agent_is_timed_in_its_first_run(swr):
    code, out, _ = swr("run changing-channels --methods vanilla --seeds 1 --dry-run")
    assert code == 0
    assert "no estimate for cartpole-dqn: an agent is timed in its first run." in out
    assert "time: unknown" in out
