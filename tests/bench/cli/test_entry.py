"""From arguments to an exit code."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from swr import __version__


def test_the_version(swr):
    assert swr("--version") == (0, f"swr {__version__}\n", "")


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


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_says_how_to_go_on_and_is_code_130(folder):
    command = [sys.executable, "-m", "swr", "run", "quickstart", "--seeds", "1", "--workers", "1"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)
    deadline = time.monotonic() + 180
    while not list(folder.glob("swr.sqlite.runs/*/claim")):
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)  # what a terminal does: every process of the group gets it
    out, err = process.communicate(timeout=180)
    assert (process.returncode, out) == (130, "")
    assert err.endswith("To continue: swr run quickstart --seeds 1 --workers 1\n")
    assert "Traceback" not in err


def test_without_the_extra_a_sentence_says_what_to_install(swr, monkeypatch):
    monkeypatch.setitem(sys.modules, "tyro", None)
    monkeypatch.delitem(sys.modules, "swr.bench.cli.options", raising=False)
    fix = "pip install 'soft-weight-rescaling[bench]'"
    assert swr("quickstart") == (2, "", f"swr: the command line needs tyro, which is not installed: {fix}\n")
    assert swr("--version")[0] == 0


def test_importing_swr_imports_nothing_of_the_command_line():
    script = (
        "import swr, sys; print([name for name in ('tyro', 'rich', 'pooch', 'sqlite3', 'swr.bench') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=Path(__file__).parent)
    assert done.stdout == "[]\n"
