"""The configuration of a run: its identity is that of everything its result depends on."""

import csv
import json
from dataclasses import fields, replace
from pathlib import Path

import pytest

from swr import methods
from swr.bench.experiments import RunConfig
from swr.errors import OptionError
from swr.methods import UnknownName

CONFIG = RunConfig("generalization", "mnist-mlp", "swr", (("coefficient", 1e-4),), seed=3)

OTHER = {
    "experiment": "lr-decay",
    "column": "cifar10-cnn",
    "method": "l2",
    "hyper": (("coefficient", 1e-3),),
    "seed": 4,
    "scenario": "warm-start",
    "epochs": (200, 1),
    "cold": True,
    "batch_size": 255,
    "lr": 1e-4,
    "lr_drops": (100,),
    "lr_factor": 0.5,
    "label_noise": 0.1,
    "validation": 0.1,
    "examples": 100,
    "inputs": "raw",
    "lr_schedule": "cosine",
    "clip": 0.5,
    "precision": "bf16",
}


def test_round_trip_through_json():
    assert RunConfig.from_dict(json.loads(json.dumps(CONFIG.to_dict()))) == CONFIG


def test_the_identity_is_stable_across_versions():
    assert CONFIG.identity == "22b48b45842313c5"


@pytest.mark.parametrize("name", [field.name for field in fields(RunConfig)])
def test_every_field_is_part_of_the_identity(name: str):
    changes = {name: OTHER[name]}
    if name in ("scenario", "epochs"):
        changes = {key: OTHER[key] for key in ("scenario", "epochs")}
    assert replace(CONFIG, **changes).identity != CONFIG.identity


def test_identities_of_stored_results_stay():
    with (Path(__file__).parents[3] / "results/paper/runs.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) > 100
    for row in rows:
        config = RunConfig.from_dict(json.loads(row["config"]))
        assert config.identity == row["id"]
        assert config.to_dict() == json.loads(row["config"])


def test_the_order_of_hyper_parameters_does_not_matter():
    one = replace(CONFIG, hyper=(("features", 1), ("classifier", 0.1)))
    other = replace(CONFIG, hyper=(("classifier", 0.1), ("features", 1.0)))
    assert one == other
    assert one.identity == other.identity
    assert one.label == "generalization mnist-mlp swr λ_c=0.1 λ_f=1 seed 3"


def test_the_label_says_what_the_run_is():
    assert CONFIG.label == "generalization mnist-mlp swr λ=0.0001 seed 3"
    cold = RunConfig("warm-start", "mnist-mlp", "vanilla", scenario="warm-start", epochs=(100, 50), cold=True)
    assert cold.label == "warm-start mnist-mlp vanilla cold seed 0"
    assert (cold.line, cold.title, cold.total) == ("cold", "vanilla (cold start)", 50)
    assert (CONFIG.line, CONFIG.title, CONFIG.total) == ("swr", "SWR", 200)


@pytest.mark.parametrize(
    "change",
    [
        {"seed": -1},
        {"epochs": ()},
        {"epochs": (0,)},
        {"epochs": (5, 5)},
        {"batch_size": 0},
        {"lr": 0.0},
        {"lr": float("nan")},
        {"label_noise": 1.5},
        {"validation": 1.0},
        {"inputs": "whitened"},
        {"examples": 0},
        {"lr_schedule": "sine"},
        {"clip": 0.0},
        {"lr_schedule": "cosine", "lr_drops": (3,)},
    ],
)
def test_values_out_of_range_are_refused(change):
    with pytest.raises(OptionError):
        replace(CONFIG, **change)


def test_unknown_names_and_fields_are_refused():
    with pytest.raises(UnknownName, match="did you mean swr"):
        replace(CONFIG, method="swrr")
    with pytest.raises(UnknownName, match="warm-start"):
        replace(CONFIG, scenario="warmstart")
    with pytest.raises(OptionError, match="'colour' is unknown"):
        RunConfig.from_dict({**CONFIG.to_dict(), "colour": 1})
    with pytest.raises(OptionError, match="'seed' is missing"):
        RunConfig.from_dict({key: value for key, value in CONFIG.to_dict().items() if key != "seed"})


def test_a_configuration_may_name_any_module_and_none_is_imported(tmp_path, monkeypatch):
    (tmp_path / "trap.py").write_text("raise SystemExit('imported')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    config = RunConfig("generalization", "digits-mlp", "trap:Method", epochs=(1,))
    assert RunConfig.from_dict(config.to_dict()).title == "trap:Method"
    with pytest.raises(SystemExit):  # so the trap works
        methods.find("trap:Method")
    with pytest.raises(methods.UnknownName):
        RunConfig("generalization", "digits-mlp", "trap; import os:Method", epochs=(1,))


def test_several_methods_at_once_have_one_title_and_say_whose_a_hyper_parameter_is():
    hyper = (("swr.coefficient", 0.01), ("hare-tortoise.every", 50.0))
    config = RunConfig("generalization", "digits-mlp", "swr+hare-tortoise", hyper)
    assert config.title == "SWR + Hare & Tortoise"
    assert config.hyper_text == "hare-tortoise.R=50 swr.λ=0.01"
    assert RunConfig.from_dict(config.to_dict()) == config


STAGED = RunConfig("warm-start", "mnist-mlp", "vanilla", scenario="continual-full", epochs=(4, 3))


def test_methods_that_act_at_a_new_task_only_have_the_first_stage_of_vanilla():
    assert STAGED.first_stage == STAGED.identity
    for method, hyper in (
        ("head-reset", ()),
        ("naive-scaling", (("ratio", 0.5),)),
        ("shrink-perturb", (("coefficient", 0.4),)),
    ):
        assert replace(STAGED, method=method, hyper=hyper).first_stage == STAGED.identity


@pytest.mark.parametrize("name", [field.name for field in fields(RunConfig) if field.name not in ("method", "hyper", "cold")])
def test_everything_but_the_method_is_part_of_the_first_stage(name: str):
    other = replace(STAGED, method="head-reset", **{name: OTHER[name]})
    assert other.first_stage not in (None, STAGED.first_stage)


@pytest.mark.parametrize("method", ["l2", "swr", "head-reset+ema", "my_module:Mine"])
def test_a_method_that_may_act_earlier_has_no_first_stage_in_common_with_others(method: str):
    assert replace(STAGED, method=method).first_stage is None


def test_a_run_of_one_stage_has_no_first_stage():
    assert replace(STAGED, cold=True).first_stage is None
    assert RunConfig("generalization", "mnist-mlp", "vanilla").first_stage is None
    agent = RunConfig("x", "cartpole-dqn", "vanilla", scenario="changing-channels", epochs=(1, 1), examples=1024)
    assert agent.first_stage is None
