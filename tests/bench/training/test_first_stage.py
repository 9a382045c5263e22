"""First stages that runs have in common: taken over bit for bit, or not at all."""

import errno
import os
from dataclasses import replace

import pytest
import torch
from resuming import Stopped, rows, stop_at
from toy import pictures

from swr import methods
from swr.bench.experiments import RunConfig
from swr.bench.training import Training, checkpoint, run
from swr.bench.training import first_stage as stages

PLAIN = RunConfig("proportionality", "digits-mlp", "vanilla", scenario="continued", epochs=(3, 2), batch_size=64)
NEEDED = {"shrink-perturb": {"coefficient": 0.4}, "naive-scaling": {"ratio": 0.5}, "proportional-scaling": {"ratio": 0.5}}
SHARING = [name for name in methods.names() if methods.find(name).only_at_new_task]


def using(method, config=PLAIN, **hyper):
    return replace(config, method=method, hyper=tuple((hyper or NEEDED.get(method, {})).items()))


def equal(one, other):
    """Bit for bit."""
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(equal, one, other))
    return one == other


def trained(epochs):
    return [epoch.epoch for epoch in epochs if epoch.seconds > 0]


def ends_alike(one, other):
    """Whether the last checkpoints hold the same bits: weights, moments, random numbers, the method's state."""
    return equal(checkpoint.read(one)["training"], checkpoint.read(other)["training"])


@pytest.mark.parametrize("column", ["mnist-mlp", "mnist-cnnbn"])
@pytest.mark.parametrize("name", SHARING)
def test_until_the_second_stage_a_run_is_vanilla_bit_for_bit(name, column):
    config = using(name, replace(PLAIN, column=column, epochs=(2, 1), batch_size=8))
    plain, other = Training(using("vanilla", config), pictures()), Training(config, pictures())
    fresh = Training(config, pictures()).method.state_dict()
    ends = []
    for training in (plain, other):
        torch.manual_seed(0)  # both use torch's global random numbers, one after the other
        epochs = rows([training.epoch(), training.epoch()])
        ends.append((epochs, {key: value for key, value in training.state_dict().items() if key != "method"}))
    assert equal(*ends)
    assert equal(other.method.state_dict(), fresh)


@pytest.mark.parametrize("name", SHARING)
def test_a_run_that_takes_over_its_first_stage_ends_with_the_same_bits(name, tmp_path):
    config, shared = using(name), tmp_path / "shared" / "stage.pt"
    leader = using("naive-scaling", ratio=0.9) if name == "vanilla" else PLAIN
    assert trained(run(leader, tmp_path / "leader.pt", first_stage=shared)) == [1, 2, 3, 4, 5]
    alone = run(config, tmp_path / "alone.pt")
    taken = run(config, tmp_path / "taken.pt", first_stage=shared)
    assert trained(alone) == [1, 2, 3, 4, 5]
    assert trained(taken) == [4, 5]
    assert rows(taken) == rows(alone)
    assert ends_alike(tmp_path / "taken.pt", tmp_path / "alone.pt")
    assert name == "vanilla" or not ends_alike(tmp_path / "taken.pt", tmp_path / "leader.pt")


@pytest.mark.parametrize("number", [1, 3, 4])
def test_a_run_that_was_stopped_goes_on_exactly_before_and_after_what_it_took_over(number, tmp_path):
    config, shared = using("proportional-scaling"), tmp_path / "stage.pt"
    run(PLAIN, tmp_path / "leader.pt", first_stage=shared)
    alone = run(config, tmp_path / "alone.pt")
    with pytest.raises(Stopped):
        run(config, tmp_path / "taken.pt", first_stage=shared, report=stop_at(number))
    shared.unlink()
    taken = run(config, tmp_path / "taken.pt", first_stage=shared)
    assert rows(taken) == rows(alone)
    assert trained(taken) == ([4, 5] if number == 4 else [1, 2, 3, 4, 5]), "its own checkpoint needs no other file"
    assert ends_alike(tmp_path / "taken.pt", tmp_path / "alone.pt")


def test_a_run_stopped_at_the_very_end_of_the_stage_leaves_it_for_others_all_the_same(tmp_path):
    shared = tmp_path / "stage.pt"
    with pytest.raises(Stopped):
        run(PLAIN, tmp_path / "leader.pt", report=stop_at(3))
    assert not shared.exists()
    run(PLAIN, tmp_path / "leader.pt", first_stage=shared)
    assert trained(run(using("naive-scaling"), tmp_path / "other.pt", first_stage=shared)) == [4, 5]


def test_the_file_is_that_of_no_method(tmp_path):
    shared = tmp_path / "stage.pt"
    run(using("shrink-perturb"), tmp_path / "leader.pt", first_stage=shared)
    assert "method" not in checkpoint.read(shared)["training"]
    assert "initial" in checkpoint.read(tmp_path / "leader.pt")["training"]["method"]


@pytest.mark.parametrize("damage", ["rubbish", "cut", "one bit"])
def test_a_damaged_file_is_set_aside_and_the_stage_trained_again(damage, tmp_path, caplog):
    config, shared = using("naive-scaling"), tmp_path / "stage.pt"
    run(PLAIN, tmp_path / "leader.pt", first_stage=shared)
    good = shared.read_bytes()
    flipped = bytearray(good)
    flipped[len(good) // 2] ^= 1
    shared.write_bytes({"rubbish": b"rubbish" * 100, "cut": good[: len(good) // 2], "one bit": bytes(flipped)}[damage])
    epochs = run(config, tmp_path / "run.pt", first_stage=shared)
    assert trained(epochs) == [1, 2, 3, 4, 5]
    assert rows(epochs) == rows(run(config, tmp_path / "alone.pt"))
    assert "is damaged" in caplog.text
    assert trained(run(config, tmp_path / "next.pt", first_stage=shared)) == [4, 5], "the run has left a good one"


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("torch", "2.6.0"),
        ("swr", "0.0.1"),
        ("device", "cuda:0"),
        ("threads", 64),
        ("instructions", "NONE"),
        ("first stage", ""),
    ],
)
def test_a_file_made_otherwise_is_not_believed(name, found, tmp_path, caplog):
    shared = tmp_path / "stage.pt"
    run(PLAIN, tmp_path / "leader.pt", first_stage=shared)
    state = checkpoint.read(shared)
    assert name in state["made_with"]
    state["made_with"][name] = found
    checkpoint.write(shared, state)
    assert trained(run(using("naive-scaling"), tmp_path / "run.pt", first_stage=shared)) == [1, 2, 3, 4, 5]
    assert f"its {name} is {found}" in caplog.text
    assert trained(run(using("naive-scaling"), tmp_path / "next.pt", first_stage=shared)) == [4, 5], "there is a new one"


def test_a_method_that_acts_at_steps_neither_takes_nor_leaves_a_first_stage(tmp_path):
    config, shared = using("l2", coefficient=0.1), tmp_path / "stage.pt"
    assert trained(run(config, tmp_path / "a.pt", first_stage=shared)) == [1, 2, 3, 4, 5]
    assert not shared.exists()
    run(PLAIN, tmp_path / "leader.pt", first_stage=shared)
    assert trained(run(config, tmp_path / "b.pt", first_stage=shared)) == [1, 2, 3, 4, 5]


def test_without_room_for_the_file_the_run_itself_goes_on(tmp_path, monkeypatch, caplog):
    def full(path, state):
        raise checkpoint.CheckpointError(os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(stages.checkpoints, "write", lambda path, state: full(path, state) if path.name == "stage.pt" else None)
        epochs = run(PLAIN, tmp_path / "run.pt", first_stage=tmp_path / "stage.pt")
    assert len(epochs) == 5
    assert "other runs will repeat this first stage: No space left on device" in caplog.text
