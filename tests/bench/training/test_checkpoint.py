"""Checkpoints that fail, are damaged, or belong to others."""

import logging
import resource
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from resuming import Stopped, rows, stop_at

from swr.bench.experiments import RunConfig
from swr.bench.training import checkpoint, run
from swr.bench.training.checkpoint import CheckpointError

CONFIG = RunConfig("continual-full", "digits-mlp", "vanilla", scenario="continual-full", epochs=(1, 2, 1), batch_size=128)


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
