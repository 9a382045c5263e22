"""What a run was, in words."""

import sys
from dataclasses import replace

from swr.bench.experiments import RunConfig, run_description


def test_what_a_file_of_results_names_is_not_imported(own):
    config = RunConfig("generalization", "mnist-mlp", "untold:Nothing", epochs=(20,))
    assert run_description.label(config) == "20 of 200 epochs"
    assert run_description.command(config, [0]) == (
        "swr run generalization --columns mnist-mlp --methods untold:Nothing --seeds 1 --epochs-scale 0.1"
    )
    other = replace(config, hyper=(("scale", 0.5),))
    assert str(run_description.command(other, [0])).endswith("--hyper scale=0.5")
    assert "untold" not in sys.modules


def test_hyper_parameters_that_a_method_does_not_have_give_no_command():
    config = RunConfig("generalization", "mnist-mlp", "vanilla", (("coefficient", 0.5),), epochs=(200,))
    assert run_description.command(config, [0]) is None
    assert str(run_description.command(replace(config, method="l2"), [0])).endswith("--hyper coefficient=0.5")
