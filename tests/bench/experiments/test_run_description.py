"""What a run was, in words."""

import sys
from dataclasses import replace

from swr.bench.experiments import RunConfig, expand, run_description, sweep


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


def test_the_command_names_every_option_and_the_seeds_that_do_not_start_at_0():
    config = RunConfig(
        "generalization", "mnist-mlp", "l2", (("coefficient", 0.5),), examples=4000, validation=0.1, inputs="raw"
    )
    assert run_description.label(config) == "10 % of the training data held out, 4,000 training examples, raw inputs"
    assert run_description.command(config, [100, 102]) == (
        "swr run generalization --columns mnist-mlp --methods l2 --seeds 100-102 "
        "--hyper coefficient=0.5 --inputs raw --examples 4000 --validation 0.1"
    )
    one_cycle = expand("generalization", columns=["mnist-mlp"], methods=["vanilla"], seeds=1, lr_schedule="one-cycle")[0]
    assert run_description.label(one_cycle) == "learning rate by one-cycle"
    assert str(run_description.command(one_cycle, [0])).endswith("--seeds 1 --lr-schedule one-cycle")
    assert run_description.label(replace(one_cycle, experiment="lr-cosine", lr_schedule="cosine")) == ""
    whole = replace(expand("permuted-pixels", methods=["vanilla"], seeds=1)[0], examples=None)
    assert run_description.label(whole) == "all training examples"
    assert run_description.command(whole, [0]) is None  # no option says so


def test_several_methods_at_once():
    [config] = expand("lr-decay", columns=["mnist-mlp"], methods=["swr-reinit+l2+ema"], seeds=1)
    best = "the paper's best of generalization, chosen on the test set"
    assert run_description.origin(config) == f"swr-reinit: {best}; l2: {best}"
    assert run_description.command(config, [0]) == (
        "swr run lr-decay --columns mnist-mlp --methods swr-reinit+l2+ema --seeds 1"
    )
    other = replace(config, method="swr+ema", hyper=(("ema.momentum", 0.9), ("swr.coefficient", 0.5)))
    assert str(run_description.command(other, [0])).endswith("--hyper ema.momentum=0.9 swr.coefficient=0.5")
    [held_out, *_] = sweep("generalization", "mnist-mlp", "swr+head-reset", seeds=1)
    assert run_description.command(held_out, [0]) == (
        "swr run generalization --columns mnist-mlp --methods swr+head-reset --seeds 1 "
        "--hyper swr.coefficient=1.0 --validation 0.1"
    )


def test_the_small_vgg_has_the_papers_hyper_parameters_of_another_column_and_says_so():
    found = expand("warm-start", columns=["cifar100-vgg16"], methods=["swr"], seeds=1, precision="bf16", examples=10_000)
    assert dict(found[0].hyper) == {"classifier": 0.1, "features": 0.01}
    assert run_description.origin(found[0]) == "the paper's best on TinyImageNet (VGG-16), chosen on the test set"
    assert run_description.label(found[0]) == "10,000 training examples, bf16 autocast"
    assert run_description.command(found[0], [0]) == (
        "swr run warm-start --columns cifar100-vgg16 --methods swr --seeds 1 --examples 10000 --precision bf16"
    )
