"""The experiment on balancedness."""

import copy
from dataclasses import replace

import pytest

from swr.bench import experiments
from swr.bench.data import load
from swr.bench.experiments import RunConfig
from swr.bench.training import Training
from swr.diagnostics import balancedness, entrywise_norm, rebalance
from swr.errors import OptionError

NORMS = RunConfig("balancedness", "digits-mlp", "vanilla", epochs=(4,), batch_size=32)


def test_balancedness_is_a_single_task_of_vanilla_and_swr_on_the_mlp():
    runs = experiments.expand("balancedness")
    assert {(one.column, one.scenario, one.epochs) for one in runs} == {("cifar10-mlp", "single", (200,))}
    assert [(one.method, one.seed) for one in runs] == [(name, seed) for seed in range(5) for name in ("vanilla", "swr")]


def test_the_norms_over_their_minimum_are_measured_after_every_epoch():
    trained = Training(NORMS, load("digits"))
    for _ in range(2):
        measures = trained.epoch().measures
        assert sorted(measures) == [f"l{p},{q} over minimum" for p in (1, 2) for q in (1, 2)]
        for p in (1, 2):
            for q in (1, 2):
                assert measures[f"l{p},{q} over minimum"] == balancedness(trained.model, p, q) > 1
    best = copy.deepcopy(trained.model)
    rebalance(best, 2, 1)
    ratio = entrywise_norm(trained.model, 2, 1) / entrywise_norm(best, 2, 1)
    assert measures["l2,1 over minimum"] == pytest.approx(ratio, rel=1e-6)


def test_measuring_does_not_change_the_run():
    measured, plain = (Training(replace(NORMS, experiment=name), load("digits")) for name in ("balancedness", "generalization"))
    for _ in range(2):
        one, other = measured.epoch(), plain.epoch()
        assert one.measures
        assert not other.measures
        assert (one.train_loss, one.test_accuracy, one.norms) == (other.train_loss, other.test_accuracy, other.norms)


@pytest.mark.parametrize("column", ["cifar100-cnnbn", "tinyimagenet-vgg16"])
def test_balancedness_of_networks_with_normalisation_layers_is_refused_at_once(column):
    with pytest.raises(OptionError, match=r"normalisation layers do not let through, and .* has some: use .*-mlp or .*-cnn"):
        experiments.expand("balancedness", columns=[column])
