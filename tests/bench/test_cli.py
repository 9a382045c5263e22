import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from job_tasks import config, epoch
from rich.console import Console

from swr import __version__
from swr.bench import paper
from swr.bench.cli import main
from swr.bench.estimate import Estimator
from swr.bench.progress import view
from swr.bench.provenance import Provenance
from swr.bench.store import Store

HERE = Provenance({}, None, "host")
TINY = ["--seeds", "1", "--epochs-scale", "0.02"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A stranger's empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def swr(capfd):
    """Runs a command; its exit code, what it printed, and what it complained of."""

    def call(line):
        with pytest.raises(SystemExit) as end:
            main(line.split())
        return end.value.code, *capfd.readouterr()

    return call


def finished(path, configs, accuracy=lambda config: 0.9):
    with Store(path) as store:
        store.add(configs, HERE)
        for one in configs:
            store.record(one.identity, [epoch(one.total, one.total, test_accuracy=accuracy(one), validation_accuracy=0.5)])
            store.finish(one.identity, {})


def test_the_version(swr):
    assert swr("--version") == (0, f"swr {__version__}\n", "")


@pytest.mark.parametrize("line", ["", "--help", "run --help", "sweep --help", "status --help", "data --help", "explain --help"])
def test_help_teaches_with_examples(swr, line):
    code, out, _ = swr(line)
    assert code == 0
    assert "Examples:\n  swr " in out


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("run warmstart", "there is no experiment 'warmstart': did you mean warm-start? known are warm-start, continual-full"),
        ("run warm-start --columns minst-mlp", "there is no column 'minst-mlp': did you mean mnist-mlp? known are mnist-mlp"),
        ("run warm-start --methods srw", "there is no method 'srw': did you mean swr? known are cold, vanilla"),
        ("run warm-start --seeds -1", "the number of seeds must be at least 1, found -1"),
        ("run warm-start --epochs-scale 0", "epochs_scale must be positive"),
        (
            "run warm-start --hyper coefficient=1",
            "hyper-parameters belong to one method, and 7 would run: name it",
        ),
        ("run warm-start --methods swr --hyper coefficient", "--hyper wants NAME=VALUE with a number, found 'coefficient'"),
        (
            "run warm-start --methods l2 --hyper coefficient=1 lambda=1",
            "l2: got an unexpected keyword argument 'lambda'; its options",
        ),
        ("run quickstart --workers 0", "--workers must be at least 1, found 0"),
        ("run quickstart --device tpu", "--device tpu cannot be used here"),
        ("run quickstart --store nowhere/s.sqlite", "the folder nowhere of the store s.sqlite does not exist"),
        ("sweep warm-start --column digits-mlp --method vanilla", "vanilla has no hyper-parameter to sweep"),
        ("status", "there is no store at swr.sqlite"),
        ("data check nist", "there is no dataset 'nist': did you mean mnist?"),
        ("data download", "name what to download: mnist, cifar10, cifar100, tinyimagenet"),
        ("data download digits", "is not a dataset to download"),
        ("explain nowhere:make --input 1x2", "there is no module 'nowhere' here"),
        ("explain torch.nn --input 1x2", "write PACKAGE.MODULE:FACTORY"),
        ("explain torch.nn:Linear --input 1x2", "could not be called without arguments"),
        ("explain torch.nn:Linear --input 1by2", "'1by2' is not the shape of an input"),
        ("explain torch.nn:ReLU", "give the shape of the model's input"),
    ],
)
def test_wrong_usage_is_one_sentence_and_code_2(swr, folder, line, sentence):
    code, out, err = swr(line)
    assert (code, out) == (2, "")
    assert err.startswith("swr: ")
    assert sentence in err
    assert err.count("\n") == 1
    assert list(folder.iterdir()) == []


def test_an_unknown_option_is_code_2(swr):
    code, _, err = swr("run warm-start --sedes 3")
    assert code == 2
    assert "--seeds" in err


def test_a_missing_dataset_without_network_is_one_sentence(swr, folder, monkeypatch):
    monkeypatch.delenv("SWR_DATA", raising=False)
    monkeypatch.setenv("SWR_CACHE", str(folder / "cache"))

    def no_network(*_, **__):
        raise socket.gaierror("no address")

    monkeypatch.setattr(socket, "getaddrinfo", no_network)
    code, out, err = swr("run generalization --columns mnist-mlp")
    assert (code, out) == (2, "")
    assert "mnist was not found in" in err
    assert "no connection" in err
    assert err.count("\n") == 1


def test_a_store_of_a_newer_version_is_one_sentence(swr):
    finished("swr.sqlite", [config()])
    with closing(sqlite3.connect("swr.sqlite")) as db:
        db.execute("PRAGMA user_version = 99")
    code, _, err = swr("status")
    assert (code, err.count("\n")) == (2, 1)
    assert "newer swr" in err


def test_a_run_ends_with_a_table_and_is_not_repeated(swr, folder):
    line = "run quickstart --methods cold,vanilla swr --seeds 2 --epochs-scale 0.02 --workers 1"
    code, out, err = swr(line)
    assert code == 0, err
    assert "vanilla (cold start)" in out
    assert "±" in out
    assert "mean ± standard deviation over 2 seeds" in out
    assert err.count("✓") == 6
    assert sorted(path.name for path in folder.iterdir() if path.suffix != ".sqlite-shm") == ["swr.html", "swr.sqlite"]
    again, same, err = swr(line)
    assert (again, same) == (0, out)
    assert "6 of them done before" in err
    assert "✓" not in err


def test_a_failed_run_is_code_1_with_the_reason_in_status(swr, monkeypatch):
    import job_tasks

    from swr.bench.engines import LocalEngine

    crashing = lambda workers: LocalEngine(workers, job_tasks.crash_on_odd_seeds, start="forkserver")  # noqa: E731
    monkeypatch.setattr("swr.bench.jobs.LocalEngine", crashing)
    code, out, err = swr("run quickstart --methods vanilla --seeds 2 --epochs-scale 0.02 --workers 1")
    assert code == 1
    assert "1 of 2 runs failed" in err
    assert "ZeroDivisionError: the loss fell over" in err
    assert "vanilla" in out  # what is done is shown
    code, out, _ = swr("status")
    assert code == 0
    assert "seed 1  ZeroDivisionError: the loss fell over" in out
    assert "Traceback" in swr("status --errors")[1]


def test_quickstart_tells_the_gap_to_the_cold_start(swr):
    finished("swr.sqlite", paper.expand("quickstart"), lambda c: 0.8 if c.cold else 0.7 + 0.01 * c.seed)
    code, out, _ = swr("quickstart")
    assert code == 0
    rows = {line.split("  ")[0]: line for line in out.splitlines()}
    assert "0.8000 ± 0.0000" in rows["vanilla (cold start)"]
    assert rows["SWR"].split() == ["SWR", "0.7100", "±", "0.0100", "-0.0900"]


def test_a_table_of_the_paper_stands_beside_ours(swr):
    finished("swr.sqlite", paper.expand("generalization", columns=["mnist-mlp"]))
    code, out, _ = swr("run generalization --columns mnist-mlp")
    assert code == 0
    row = next(line for line in out.splitlines() if line.startswith("SWR"))
    assert "0.9000 ± 0.0000" in row
    assert "0.9822" in row


def test_a_sweep_names_the_best_on_what_it_selects_on(swr):
    options = "--column digits-mlp --method shrink-perturb --seeds 1 --epochs-scale 0.1"
    for select in ("validation", "test"):
        configs = paper.sweep("warm-start", "digits-mlp", "shrink-perturb", seeds=1, epochs_scale=0.1, select=select)
        finished("swr.sqlite", configs, lambda c: dict(c.hyper)["coefficient"])
    with closing(sqlite3.connect("swr.sqlite", isolation_level=None)) as db:
        sql = "UPDATE metrics SET validation_accuracy = 1 - test_accuracy"
        db.execute(sql)
    assert swr(f"sweep warm-start {options}")[1].endswith("best: λ=0.2\n")
    assert swr(f"sweep warm-start {options} --select test")[1].endswith("best: λ=0.8\n")


def test_a_dry_run_lists_and_estimates_and_leaves_nothing(swr, folder):
    code, out, _ = swr("run quickstart --seeds 1 --dry-run --workers 2")
    assert code == 0
    assert out.count(" new\n") == 5
    assert "5 runs, 5 to do" in out
    assert "time: about" in out
    assert list(folder.iterdir()) == []


def test_a_dry_run_knows_what_is_done(swr):
    finished("swr.sqlite", paper.expand("quickstart", seeds=1)[:2])
    _, out, _ = swr("run quickstart --seeds 1 --dry-run")
    assert out.count(" done\n") == 2
    assert "5 runs, 3 to do" in out


def test_status_counts_and_shows_results(swr):
    finished("swr.sqlite", paper.expand("quickstart", seeds=2))
    with Store("swr.sqlite") as store:
        store.add(interrupted := paper.expand("quickstart", seeds=[7], methods=["swr"]), HERE)
        store.start(interrupted[0].identity, HERE)
    code, out, _ = swr("status")
    assert code == 0
    assert out.splitlines()[0].split() == ["experiment", "column", "done", "interrupted", "computed"]
    assert out.splitlines()[2].split()[:4] == ["quickstart", "digits-mlp", "10", "1"]
    assert "0.9000 ± 0.0000" in swr("status quickstart")[1]
    assert "holds no runs of lr-decay" in swr("status lr-decay")[1]


def test_data_list_and_check(swr):
    code, out, _ = swr("data list")
    assert code == 0
    assert {"digits", "mnist", "cifar10", "cifar100", "tinyimagenet"} <= {
        line.split(" ")[0] for line in out.splitlines() if line
    }
    assert swr("data check digits")[:2] == (0, "digits: sound\n")


def test_explain_prints_the_plan_of_a_model_in_this_folder(swr, folder, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    (folder / "stranger.py").write_text(
        "from torch import nn\n"
        "class Two(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.table, self.out = nn.Embedding(5, 4), nn.Linear(4, 2)\n"
        "    def forward(self, words, other):\n"
        "        return self.out(self.table(words)) * other\n"
    )
    code, out, _ = swr("explain stranger:Two --input int:2x3 --input 2x3x2")
    assert code == 0
    assert "table.weight" in out
    assert "f(x) is multiplied by C" in out


def test_the_live_view_shows_bars_and_the_time_left(folder):
    configs = paper.expand("quickstart", seeds=1)
    with (folder / "screen").open("w+") as screen:
        console = Console(file=screen, force_terminal=True, width=120, color_system=None)
        with view("quickstart", console, Estimator(), workers=2) as live:
            live.open(configs, done=[configs[0].identity], begun={})
            live.began(configs[1])
            live.tick()
            live.epoch(configs[1], epoch(50, 200, seconds=1.0, test_accuracy=0.4321))
            live.tick()
            live.done(configs[1])
            live.failed(configs[2], "ValueError: [no] such thing")
            live.tick()
        screen.seek(0)
        text = screen.read()
    assert "1 of 5 runs done" in text
    assert "epoch 50/200" in text
    assert "test 0.4321" in text
    assert "min" in text
    assert "✗ digits-mlp l2 λ=0.01 seed 0  ValueError: [no] such thing" in text


def test_lines_are_few_where_there_is_no_terminal(folder):
    configs = paper.expand("quickstart", seeds=1)
    with (folder / "log").open("w+") as log:
        console = Console(file=log, width=40)
        lines = view("quickstart", console, Estimator(), workers=2)
        with lines:
            lines.open(configs, done=[], begun={})
            lines.began(configs[1])
            for number in range(1, 201):
                lines.epoch(configs[1], epoch(number, 200))
                lines.tick()
            lines.done(configs[1])
        log.seek(0)
        assert log.read().splitlines() == ["quickstart: 5 runs", "✓ digits-mlp vanilla seed 0  test accuracy 20.0000  (1 of 5)"]


def test_an_honest_estimate():
    """Two runs of which one is half done, at one second an epoch on half, two on all the data."""
    one, two = paper.expand("quickstart", seeds=1, methods=["vanilla", "swr"])
    half, whole = one.epochs
    estimator = Estimator()
    assert estimator.remaining([(one, None)], 1) is None
    estimator.measured(one, epoch(1, stage=0, seconds=0.56))
    estimator.measured(one, epoch(2, stage=1, seconds=1.06))
    expected = half * 0.56 + whole * 1.06
    assert estimator.remaining([(one, None)], 4) == pytest.approx(expected)
    last = epoch(half, stage=0)
    assert estimator.remaining([(one, last), (two, None)], 1) == pytest.approx(expected + whole * 1.06)
    assert estimator.remaining([(one, last), (two, None)], 2) == pytest.approx(expected), "the longer of the two"


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_says_how_to_go_on_and_is_code_130(folder):
    command = [sys.executable, "-m", "swr.bench.cli", "run", "quickstart", "--seeds", "1", "--workers", "1"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)
    deadline = time.monotonic() + 180
    while not list(folder.glob("swr.sqlite.runs/*/claim")):
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)  # what a terminal does: every process of the group gets it
    out, err = process.communicate(timeout=180)
    assert (process.returncode, out) == (130, "")
    assert err.endswith("To go on: swr run quickstart --seeds 1 --workers 1\n")
    assert "Traceback" not in err


def test_without_the_extra_a_sentence_says_what_to_install(swr, monkeypatch):
    monkeypatch.setitem(sys.modules, "tyro", None)
    monkeypatch.delitem(sys.modules, "swr.bench.options", raising=False)
    assert swr("quickstart") == (2, "", "swr: the command line needs tyro, which is not installed: pip install 'swr[bench]'\n")
    assert swr("--version")[0] == 0


def test_importing_swr_imports_nothing_of_the_command_line():
    script = (
        "import swr, sys; print([name for name in ('tyro', 'rich', 'pooch', 'sqlite3', 'swr.bench') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=Path(__file__).parent)
    assert done.stdout == "[]\n"
