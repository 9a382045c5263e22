"""Recorded costs of a step, and of memory."""

from swr.bench.experiments.board import rows
from swr.bench.report.leaderboard.costs import Cost, costs, origins, record


def test_every_row_of_the_board_was_measured_and_it_says_where():
    assert set(costs()) == {row.method for row in rows()}
    assert all(0.8 < one.step < 10 and one.memory >= 0 for one in costs().values())
    assert len(origins()) == 1
    assert origins()[0].startswith("torch 2.")


def test_what_is_known_of_a_method_agrees_with_the_memory_that_was_measured():
    found = costs()
    assert found["l2"].memory == 0
    assert found["l2-init"].memory == found["ema"].memory == found["shrink-perturb"].memory == 1
    assert found["swr-budget"].memory < 0.01, "one norm a weight"


def test_a_measurement_is_written_as_it_is_read(tmp_path):
    path = record({"l2": Cost(1.0312, 0.0)}, "2.13.0", "a processor, fast", "2026-01-01", tmp_path / "costs.csv")
    assert path.read_text() == (
        'method,step,memory,torch,processor,date\nl2,1.031,0.000,2.13.0,"a processor, fast",2026-01-01\n'
    )
