"""Stopped at any epoch, continued exactly."""

from dataclasses import replace
from pathlib import Path

import pytest
from resuming import Stopped, rows, stop_at
from toy import stream_config

from swr.bench.experiments import RunConfig
from swr.bench.training import checkpoint, run


@pytest.mark.parametrize(
    ("scenario", "column", "epochs", "method"),
    [
        ("permuted-pixels", "digits-mlp", (1, 1, 1), "continual-backprop"),
        ("random-labels", "digits-mlp", (2, 2, 2), "full-reset"),
        ("class-incremental", "digits-mlp", (1, 2, 1), "vanilla"),
        ("bit-flipping", "bits-mlp5", (1, 1, 1), "redo"),
    ],
)
def test_a_run_stopped_in_the_middle_of_a_stream_goes_on_exactly(scenario, column, epochs, method, tmp_path):
    examples = None if scenario == "class-incremental" else 96
    one = stream_config(scenario, column=column, epochs=epochs, method=method, examples=examples)

    whole = run(one, tmp_path / "whole.pt")
    for number in (1, 3):  # between two tasks, or within one
        with pytest.raises(Stopped):
            run(one, tmp_path / "parts.pt", report=stop_at(number))
    assert rows(run(one, tmp_path / "parts.pt")) == rows(whole)
    assert (one.setting.metric.name in whole[-1].measures) == (scenario != "class-incremental")


CONFIG = RunConfig("continual-full", "digits-mlp", "vanilla", scenario="continual-full", epochs=(1, 2, 1), batch_size=128)


METHODS = {
    "vanilla": (),
    "l2-init": (("coefficient", 1e-3),),
    "shrink-perturb": (("coefficient", 0.4),),
    "head-reset": (),
    "full-reset": (),
    "swr-reinit": (("coefficient", 1e-2),),
    "swr+hare-tortoise": (("swr.coefficient", 1e-2), ("hare-tortoise.every", 7)),
    "shrink-perturb+parseval+ema": (("shrink-perturb.coefficient", 0.4), ("parseval.coefficient", 1e-2)),
    "hyperball": (),
    "cpr": (("every", 5),),
}


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


@pytest.mark.parametrize("schedule", ["cosine", "warmup-cosine", "one-cycle", "restarts"])
def test_a_schedule_goes_on_where_it_was(schedule: str, tmp_path: Path):
    config = replace(CONFIG, method="weight-decay", hyper=(("coefficient", 0.1),), lr_schedule=schedule)
    whole = run(config, tmp_path / "whole.pt")
    for number in (1, 2, 3):
        with pytest.raises(Stopped):
            run(config, tmp_path / "parts.pt", report=stop_at(number))
    assert (
        rows(run(config, tmp_path / "parts.pt"))
        == rows(whole)
        != rows(run(replace(config, lr_schedule="step"), tmp_path / "s"))
    )


def test_a_run_in_bfloat16_goes_on_exactly(tmp_path: Path):
    config = replace(CONFIG, precision="bf16")
    whole = run(config, tmp_path / "whole.pt")
    with pytest.raises(Stopped):
        run(config, tmp_path / "parts.pt", report=stop_at(1))
    assert rows(run(config, tmp_path / "parts.pt")) == rows(whole) != rows(run(CONFIG, tmp_path / "full.pt"))


def test_a_transformer_with_clipped_gradients_goes_on_exactly(tmp_path: Path):
    config = replace(CONFIG, column="digits-vit", method="swr", hyper=(("coefficient", 1e-2),), clip=0.5, lr_schedule="cosine")
    whole = run(config, tmp_path / "whole.pt")
    for number in (1, 3):
        with pytest.raises(Stopped):
            run(config, tmp_path / "parts.pt", report=stop_at(number))
    assert rows(run(config, tmp_path / "parts.pt")) == rows(whole)


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
