"""Where the rows go: a CSV file that survives a crash, TensorBoard, a function."""

import copy
import subprocess
import sys

import pytest
import torch
from torch import nn

import swr
from nets import make, mlp, train
from swr.diagnostics import Monitor, read_csv

from .monitor_helpers import sgd


def test_the_csv_file_holds_the_same_rows_and_is_complete_after_every_step(tmp_path):
    model = make(mlp)
    optimizer = sgd(model)
    path = tmp_path / "new" / "run.csv"
    monitor = Monitor(model, every=1, to=path)
    monitor.attach(optimizer)
    for _ in range(3):
        train(model, optimizer, 1)
        assert read_csv(path) == monitor.rows
    assert path.read_text().splitlines()[:2] == ["step,name,value", f"0,norm/0.weight,{monitor.rows[0]['norm/0.weight']!r}"]


def test_a_csv_file_goes_on_after_a_crash_with_other_measures(tmp_path):
    """A line cut in the middle is dropped, steps after the checkpoint are measured again, a new measure fits in."""
    path = tmp_path / "run.csv"
    whole = tmp_path / "whole.csv"

    def run(to, measures, steps, state=None):
        model = make(mlp)
        optimizer = sgd(model)
        monitor = Monitor(model, every=1, measures=measures, to=to)
        if state is not None:
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            monitor.load_state_dict(state["monitor"])
        monitor.attach(optimizer)
        states = []
        for step in range(monitor.steps, steps):
            torch.manual_seed(step)
            train(model, optimizer, 1)
            parts = {"model": model, "optimizer": optimizer, "monitor": monitor}
            states.append(copy.deepcopy({name: part.state_dict() for name, part in parts.items()}))
        return monitor, states

    run(whole, ["norm", "ratio"], 6)
    _, states = run(path, ["norm", "ratio"], 4)
    with path.open("a") as file:
        file.write("5,norm/0.wei")
    monitor, _ = run(path, ["norm", "ratio", "balance"], 6, states[1])
    assert [row["step"] for row in monitor.rows] == [3, 4, 5, 6]
    rows, expected = read_csv(path), read_csv(whole)
    assert [row["step"] for row in rows] == [0, 1, 2, 3, 4, 5, 6]
    assert [{k: v for k, v in row.items() if not k.startswith("balance")} for row in rows] == expected
    assert "balance/largest" in rows[-1]


def test_a_line_that_was_cut_off_is_not_glued_to_the_next(tmp_path):
    path = tmp_path / "run.csv"
    model = nn.Linear(2, 1)
    row = Monitor(model, measures=["norm"], to=path).record()
    with path.open("a") as file:
        file.write("1,norm/wei")
    Monitor(model, measures=["norm"], to=path).record()
    assert read_csv(path) == [row, row]


def test_rows_go_to_a_writer_and_a_function(tmp_path):
    class Writer:
        def __init__(self):
            self.scalars = []

        def add_scalar(self, name, value, step):
            self.scalars.append((step, name, value))

    model, writer, seen = make(mlp), Writer(), []
    optimizer = sgd(model)
    monitor = Monitor(model, every=1, measures=["norm"], to=[writer, seen.append, tmp_path / "run.csv"])
    monitor.attach(optimizer)
    train(model, optimizer, 1)
    assert seen == monitor.rows == read_csv(tmp_path / "run.csv")
    assert [s[:2] for s in writer.scalars[:3]] == [(0, "norm/0.weight"), (0, "norm/2.weight"), (0, "norm/4.weight")]
    assert writer.scalars[3:] == [(1, name, value) for name, value in monitor.rows[1].items() if name != "step"]


def test_tensorboards_own_writer_takes_the_rows(tmp_path):
    pytest.importorskip("tensorboard")
    code = (
        "import sys, torch, warnings; warnings.simplefilter('ignore')\n"
        "from torch.utils.tensorboard import SummaryWriter\n"
        "from tensorboard.backend.event_processing.event_accumulator import EventAccumulator\n"
        "from swr.diagnostics import Monitor\n"
        "model = torch.nn.Linear(3, 2)\n"
        "with SummaryWriter(sys.argv[1]) as writer:\n"
        "    row = Monitor(model, measures=['norm'], to=writer).record()\n"
        "events = EventAccumulator(sys.argv[1]); events.Reload()\n"
        "(event,) = events.Scalars('norm/weight')\n"
        "assert event.step == 0 and abs(event.value - row['norm/weight']) < 1e-6\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)


def test_a_destination_that_cannot_take_rows_is_refused_and_left_as_it_was(tmp_path):
    model = make(mlp)
    with pytest.raises(swr.OptionError, match="found int"):
        Monitor(model, to=3)
    (tmp_path / "notes.csv").write_text("a,b\n1,2\n")
    with pytest.raises(swr.OptionError, match="not a file of a monitor"):
        Monitor(model, to=tmp_path / "notes.csv")
    assert (tmp_path / "notes.csv").read_text() == "a,b\n1,2\n"
