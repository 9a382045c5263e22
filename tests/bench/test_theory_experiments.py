"""The experiments behind the paper's two figures of theory: proportionality and balancedness."""

import copy
from dataclasses import replace

import pytest
import torch

from swr.bench import paper, scenarios
from swr.bench.cli import main
from swr.bench.config import RunConfig
from swr.bench.data import load
from swr.bench.store import Store
from swr.bench.training import Training, run
from swr.diagnostics import balancedness, entrywise_norm, rebalance
from swr.errors import OptionError

SCALED = RunConfig("proportionality", "digits-mlp", "vanilla", scenario="continued", epochs=(6, 3), batch_size=32)
NORMS = RunConfig("balancedness", "digits-mlp", "vanilla", epochs=(4,), batch_size=32)


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch, tmp_path_factory):
    monkeypatch.setenv("SWR_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


def scaled(method: str, ratio: float) -> RunConfig:
    return replace(SCALED, method=method, hyper=(("ratio", ratio),))


def test_proportionality_is_every_ratio_naively_and_proportionally_beside_vanilla():
    runs = paper.expand("proportionality")
    assert {(one.column, one.scenario, one.epochs) for one in runs} == {("cifar10-cnn", "continued", (100, 50))}
    seeds = [[(one.method, one.hyper) for one in runs if one.seed == seed] for seed in range(5)]
    assert all(lines == seeds[0] for lines in seeds)
    assert len(runs) == 5 * (1 + 2 * len(paper.RATIOS))
    for method in ("naive-scaling", "proportional-scaling"):
        assert [dict(hyper)["ratio"] for name, hyper in seeds[0] if name == method] == list(paper.RATIOS)
    assert len({one.identity for one in runs}) == len(runs)


def test_balancedness_is_a_single_task_of_vanilla_and_swr_on_the_mlp():
    runs = paper.expand("balancedness")
    assert {(one.column, one.scenario, one.epochs) for one in runs} == {("cifar10-mlp", "single", (200,))}
    assert [(one.method, one.seed) for one in runs] == [(name, seed) for seed in range(5) for name in ("vanilla", "swr")]


def test_a_continued_run_sees_everything_in_every_stage():
    material = scenarios.prepare(SCALED, load("digits"))
    assert [stage.epochs for stage in material.stages] == [6, 3]
    for stage in material.stages:
        assert torch.equal(stage.indices, torch.arange(len(material.train)))


def test_proportional_scaling_loses_nothing_and_naive_scaling_does(tmp_path):
    lines = {
        "vanilla": SCALED,
        "naive": scaled("naive-scaling", 0.1),
        "proportional": scaled("proportional-scaling", 0.1),
    }
    epochs = {name: run(config, tmp_path / name) for name, config in lines.items()}
    for name, line in epochs.items():
        assert [list(epoch.measures) for epoch in line] == [[]] * 6 + [["test_accuracy_at_start"]] + [[]] * 2, name
        assert [epoch.test_accuracy for epoch in line[:6]] == [epoch.test_accuracy for epoch in epochs["vanilla"][:6]]
    trained = epochs["vanilla"][5].test_accuracy
    start = {name: line[6].measures["test_accuracy_at_start"] for name, line in epochs.items()}
    assert trained > 0.85
    assert start["vanilla"] == trained
    assert start["proportional"] == trained
    assert start["naive"] < trained - 0.1
    assert epochs["proportional"][6].test_accuracy != epochs["vanilla"][6].test_accuracy, "nothing was scaled"


def test_the_accuracy_at_the_start_of_a_stage_is_that_of_the_network_right_after_the_new_task():
    config = RunConfig("warm-start", "digits-mlp", "head-reset", scenario="warm-start", epochs=(2, 2), batch_size=64)
    trained = Training(config, load("digits"))
    trained.epoch()
    trained.epoch()
    other = Training(config, load("digits"))
    other.load_state_dict(copy.deepcopy(trained.state_dict()))
    other.method.new_task()
    wanted = other.accuracy(other.test).item()
    assert trained.epoch().measures == {"test_accuracy_at_start": wanted}
    assert trained.epoch().measures == {}


def test_looking_at_the_start_of_a_stage_changes_nothing():
    config = replace(SCALED, epochs=(1, 1))
    looked, blind = Training(config, load("digits")), Training(config, load("digits"))
    blind.accuracy = lambda *shown: torch.zeros(())
    for trained in (looked, blind):
        torch.manual_seed(0)
        trained.epoch()
        trained.epoch()
        trained.after = torch.get_rng_state()
    assert torch.equal(looked.after, blind.after)
    for one, other in zip(looked.model.parameters(), blind.model.parameters(), strict=True):
        assert torch.equal(one, other)


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
        paper.expand("balancedness", columns=[column])


@pytest.mark.parametrize("experiment", ["proportionality", "balancedness"])
def test_the_command_runs_both_on_digits_and_keeps_what_they_measure(experiment, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    line = f"run {experiment} --columns digits-mlp --methods vanilla --seeds 1 --epochs-scale 0.02 --workers 1"
    with pytest.raises(SystemExit) as end:
        main(line.split())
    assert end.value.code == 0, capfd.readouterr().err
    with Store(tmp_path / "swr.sqlite") as store:
        [record] = store.runs()
        kept = store.epochs(record.id)
    if experiment == "proportionality":
        assert [list(epoch.measures) for epoch in kept] == [[], [], ["test_accuracy_at_start"]]
    else:
        assert all(len(epoch.measures) == 4 and all(key.endswith("over minimum") for key in epoch.measures) for epoch in kept)
