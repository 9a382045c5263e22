"""A place where methods are compared fairly."""

from swr.bench.experiments import expand
from swr.bench.experiments.study import Setting

STREAM = Setting("s", "a stream", "permuted-pixels", "digits-mlp", scale=0.1)
STAGES = Setting("w", "stages", "warm-start", "mnist-mlp", scale=0.5, examples=6000)


def test_a_reported_run_is_the_one_that_the_command_makes():
    given = {"columns": ["mnist-mlp"], "methods": ["l2"], "seeds": [200], "hyper": {"coefficient": 0.1}}
    [same] = expand("warm-start", epochs_scale=0.5, examples=6000, **given)
    assert STAGES.config("l2", (("coefficient", 0.1),), 200) == same


def test_data_is_held_out_to_choose_on_but_not_in_a_stream_and_never_where_results_are_reported():
    assert STAGES.config("vanilla", (), 100, tune=True).validation == 0.1
    assert STAGES.config("vanilla", (), 200).validation == 0
    assert STREAM.config("vanilla", (), 100, tune=True).validation == 0


def test_a_grid_has_every_point_on_every_tuning_seed():
    place = Setting("s", "", "permuted-pixels", "digits-mlp", tuning=(1, 2))
    found = place.grid("redo", [(("threshold", 0.1),), (("threshold", 0.2),)])
    assert [(one.seed, dict(one.hyper)["threshold"]) for one in found] == [(1, 0.1), (1, 0.2), (2, 0.1), (2, 0.2)]


def test_the_cold_start_has_a_run_too():
    assert STAGES.config("cold", (), 200).cold
