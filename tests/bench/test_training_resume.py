"""Killed at any epoch, continued exactly; checkpoints that fail, are damaged, or belong to others."""

import logging
import resource
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch

from swr.bench import checkpoint
from swr.bench.checkpoint import CheckpointError
from swr.bench.config import RunConfig
from swr.bench.training import Epoch, run

CONFIG = RunConfig("continual-full", "digits-mlp", "vanilla", scenario="continual-full", epochs=(1, 2, 1), batch_size=128)

METHODS = {
    "vanilla": (),
    "l2-init": (("coefficient", 1e-3),),
    "shrink-perturb": (("coefficient", 0.4),),
    "head-reset": (),
    "full-reset": (),
    "swr-reinit": (("coefficient", 1e-2),),
}


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch, tmp_path_factory):
    monkeypatch.setenv("SWR_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


class Stopped(Exception):
    pass


def rows(epochs: list[Epoch]) -> list[dict]:
    return [{key: value for key, value in asdict(epoch).items() if key != "seconds"} for epoch in epochs]


def stop_at(number: int):
    def report(epoch: Epoch) -> None:
        if epoch.epoch == number:
            raise Stopped

    return report


@pytest.mark.parametrize("method", METHODS)
def test_a_run_stopped_after_every_epoch_is_the_undisturbed_one(method: str, tmp_path: Path):
    config = replace(CONFIG, method=method, hyper=METHODS[method], lr_drops=(3,), label_noise=0.1, validation=0.1)
    whole = run(config, tmp_path / "whole.pt")
    path = tmp_path / "parts.pt"
    for number in (1, 2, 3):
        with pytest.raises(Stopped):
            run(config, path, report=stop_at(number))
    seen = []
    parts = run(config, path, report=seen.append)
    assert rows(parts) == rows(seen) == rows(whole)


def test_a_finished_run_is_only_reported_again(tmp_path: Path):
    first = run(CONFIG, tmp_path / "run.pt")
    assert run(CONFIG, tmp_path / "run.pt") == first  # seconds included


def test_epochs_after_the_last_checkpoint_are_trained_again(tmp_path: Path):
    whole = run(CONFIG, tmp_path / "whole.pt")
    path = tmp_path / "parts.pt"
    with pytest.raises(Stopped):
        run(CONFIG, path, report=stop_at(1))
    early = path.read_bytes()
    with pytest.raises(Stopped):
        run(CONFIG, path, report=stop_at(3))
    path.write_bytes(early)
    assert rows(run(CONFIG, path)) == rows(whole)


def test_checkpoints_are_written_at_intervals(tmp_path: Path, monkeypatch):
    counts = {}
    for every in (0.0, 3600.0):
        written = []
        monkeypatch.setattr(checkpoint, "write", lambda path, state, written=written: written.append(len(state["epochs"])))
        run(CONFIG, tmp_path / "run.pt", every=every)
        counts[every] = written
    assert counts == {0.0: [1, 2, 3, 4], 3600.0: [4]}


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path):
    run(replace(CONFIG, epochs=(1, 1, 1)), tmp_path / "run.pt")
    with pytest.raises(CheckpointError, match="belongs to another run"):
        run(CONFIG, tmp_path / "run.pt")


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty", "foreign"])
def test_a_damaged_checkpoint_is_set_aside_and_the_run_begins_again(damage: str, tmp_path: Path, caplog):
    path = tmp_path / "run.pt"
    with pytest.raises(Stopped):
        run(CONFIG, path, report=stop_at(2))
    raw = bytearray(path.read_bytes())
    if damage == "flipped":
        raw[len(raw) // 2] ^= 1
    contents = {"truncated": raw[:-100], "flipped": raw, "empty": b"", "foreign": b"PK something else entirely"}[damage]
    path.write_bytes(contents)
    with caplog.at_level(logging.WARNING, logger="swr"):
        epochs = run(CONFIG, path)
    assert "damaged" in caplog.text
    assert (tmp_path / "run.pt.corrupt").read_bytes() == bytes(contents)
    assert rows(epochs) == rows(run(CONFIG, tmp_path / "other.pt"))


def test_every_flipped_byte_is_noticed(tmp_path: Path):
    path = tmp_path / "state.pt"
    checkpoint.write(path, {"tensor": torch.arange(40.0), "text": "abc"})
    raw = path.read_bytes()
    for place in range(0, len(raw), 37):
        broken = bytearray(raw)
        broken[place] ^= 16
        path.write_bytes(broken)
        assert checkpoint.read(path) is None
    path.write_bytes(raw)
    assert torch.equal(checkpoint.read(path)["tensor"], torch.arange(40.0))


def test_on_a_full_disk_the_previous_checkpoint_survives(tmp_path: Path):
    path = tmp_path / "run.pt"
    checkpoint.write(path, {"number": 1})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))  # the system refuses to write more, as a full disk does
    try:
        with pytest.raises(CheckpointError, match=r"run\.pt could not be written .*: the previous one is kept; make room"):
            checkpoint.write(path, {"tensor": torch.zeros(1_000_000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert checkpoint.read(path) == {"number": 1}
    assert [file.name for file in tmp_path.iterdir()] == ["run.pt"]


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(CheckpointError, match=r"could not be written .*there is none yet"):
        checkpoint.write(tmp_path / "file" / "run.pt", {})
