"""What all streams share."""

from dataclasses import replace

import pytest
import torch
from toy import shown, stream_config

from swr.bench import experiments
from swr.bench.experiments import STREAMS, RunConfig
from swr.errors import OptionError


@pytest.mark.parametrize("scenario", ["permuted-pixels", "random-labels", "label-permutation"])
def test_all_methods_of_a_seed_see_the_same_stream(scenario: str):
    for number in range(3):
        first, second = (shown(stream_config(scenario, method=name), number).train for name in ("vanilla", "redo"))
        for one, other in zip(vars(first).values(), vars(second).values(), strict=True):
            assert (one is None and other is None) or torch.equal(one, other)


def test_identities_of_runs_from_before_there_were_streams_stay():
    one = experiments.expand("generalization", columns=["mnist-mlp"])[0]
    assert one.identity == "ffc0431a99ab50b9"
    assert "examples" not in one.to_dict()
    assert RunConfig.from_dict(one.to_dict()) == one
    stream = experiments.expand("permuted-pixels")[0]
    assert stream.to_dict()["examples"] == 10_000
    assert RunConfig.from_dict(stream.to_dict()) == stream


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_is_an_experiment_with_a_fresh_network_beside(name: str):
    runs = experiments.expand(name, seeds=1)
    assert [one.method for one in runs] == list(STREAMS[name].methods)
    assert {one.scenario for one in runs} == {name}
    assert runs[1].title == "full reset (fresh network)"
    assert experiments.find_experiment(name) is experiments.find_scenario(name)
    with pytest.raises(OptionError, match="full-reset in place of cold"):
        experiments.expand(name, methods=["cold"])


def test_the_scale_is_one_of_tasks_or_of_the_epochs_of_a_task():
    assert len(experiments.expand("permuted-pixels", epochs_scale=0.1)[0].epochs) == 50
    assert experiments.expand("permuted-pixels", epochs_scale=1e-6)[0].epochs == (1, 1)
    assert experiments.expand("random-labels", epochs_scale=0.1)[0].epochs == (40,) * 50
    assert experiments.expand("five-plus-one", epochs_scale=0.1)[0].epochs == (1, 5) * 15


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cold": True}, "without a cold start"),
        ({"validation": 0.1}, "held-out"),
        ({"label_noise": 0.1}, "label noise"),
        ({"examples": 0}, "at least 1"),
    ],
)
def test_what_a_stream_cannot_have_is_refused(change, message):
    with pytest.raises(OptionError, match=message):
        replace(stream_config("permuted-pixels"), **change)
