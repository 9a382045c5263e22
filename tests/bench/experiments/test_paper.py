"""The paper's experiments: proportionality, whose methods have several settings."""

from dataclasses import replace

import torch

from swr.bench import experiments
from swr.bench.data import load
from swr.bench.experiments import RunConfig, material
from swr.bench.experiments.published import RATIOS
from swr.bench.training import run

SCALED = RunConfig("proportionality", "digits-mlp", "vanilla", scenario="continued", epochs=(6, 3), batch_size=32)


def scaled(method: str, ratio: float) -> RunConfig:
    return replace(SCALED, method=method, hyper=(("ratio", ratio),))


def test_proportionality_is_every_ratio_naively_and_proportionally_beside_vanilla():
    runs = experiments.expand("proportionality")
    assert {(one.column, one.scenario, one.epochs) for one in runs} == {("cifar10-cnn", "continued", (100, 50))}
    seeds = [[(one.method, one.hyper) for one in runs if one.seed == seed] for seed in range(5)]
    assert all(lines == seeds[0] for lines in seeds)
    assert len(runs) == 5 * (1 + 2 * len(RATIOS))
    for method in ("naive-scaling", "proportional-scaling"):
        assert [dict(hyper)["ratio"] for name, hyper in seeds[0] if name == method] == list(RATIOS)
    assert len({one.identity for one in runs}) == len(runs)


def test_a_continued_run_sees_everything_in_every_stage():
    found = material.prepare(SCALED, load("digits"))
    assert [stage.epochs for stage in found.stages] == [6, 3]
    for stage in found.stages:
        assert torch.equal(stage.indices, torch.arange(len(found.train)))


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
