"""What all scenarios share."""

import pytest
from toy import chunk_config, of_chunks, of_tasks, stream_config

from swr.bench.experiments import STREAMS, find_scenario
from swr.bench.experiments.scenarios import CHUNKED
from swr.methods import UnknownName


@pytest.mark.parametrize("name", ["single", "continued", "warm-start", "continual-full", "continual-limited"])
def test_the_share_of_the_data_is_that_of_the_examples(name):
    epochs = {"single": (1,), "warm-start": (1, 1)}.get(name, (1,) * 4)
    shown = of_chunks(name, epochs)
    run = chunk_config(name, epochs)
    for stage, indices in enumerate(shown):
        assert run.setting.share(run, stage) == pytest.approx(len(indices) / 103, abs=0.01)


def test_the_share_of_a_growing_stream_grows_and_that_of_others_is_a_whole_task():
    run = stream_config("class-incremental", tasks=13)
    assert [run.setting.share(run, stage) * 130 for stage in range(13)] == pytest.approx(
        [len(found) for found in of_tasks(run)]
    )
    run = stream_config("permuted-pixels")
    assert [run.setting.share(run, stage) for stage in range(4)] == [1.0] * 4


def test_every_scenario_is_found_by_the_name_it_says():
    for name, scenario in {**CHUNKED, **STREAMS}.items():
        assert find_scenario(name) is scenario
        assert scenario.name == name
    with pytest.raises(UnknownName, match="did you mean warm-start"):
        find_scenario("warmstart")
