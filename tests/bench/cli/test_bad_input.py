"""Input as a new user gets it wrong: one sentence, exit code 2, and nothing on the disk is changed."""

import copy
import math
import shlex

import pytest
import torch
from data_writers import image_folder, mnist_files, small, write
from job_tasks import config
from stores import finished
from torch import nn

import swr as library
from swr.bench.cli import main
from swr.bench.data import SOURCES
from swr.bench.store.exchange import export

MODELS = """
import torch
from torch import nn

def broken():
    raise FileNotFoundError("weights.pt\\nis not here")

def net():
    return nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
"""

RUN = "run generalization --columns digits-mlp --seeds 1"
CHOSEN = {
    "no columns": ("run generalization --columns ''", "give at least one column, or leave the option out for all."),
    "no columns, dry": ("run generalization --columns '' --dry-run", "give at least one column"),
    "columns without a name": ("run generalization --columns --dry-run", "give at least one column"),
    "no methods": ("run generalization --methods ''", "give at least one method, or leave the option out for all."),
    "methods of commas": ("run generalization --methods , --dry-run", "give at least one method"),
    "no datasets": ("data check ''", "name what to check"),
}
HYPER = {
    "unknown, of swr": (f"{RUN} --methods swr --hyper foo=1 coefficient=0.1", "swr in --hyper: SWR has no option 'foo'"),
    "unknown, dry": (f"{RUN} --methods swr --hyper foo=1 --dry-run", "swr in --hyper: SWR has no option 'foo'"),
    "unknown, of another": (
        f"{RUN} --methods l2 --hyper foo=1 coefficient=1",
        "l2: got an unexpected keyword argument 'foo'; its options",
    ),
    "not-a-number": (f"{RUN} --methods l2 --hyper coefficient=nan", "coefficient in --hyper must be a finite number"),
    "infinite": (f"{RUN} --methods l2 --hyper coefficient=inf", "coefficient in --hyper must be a finite number"),
    "too large": (f"{RUN} --methods l2 --hyper coefficient=1e300", "must be a finite number of single precision, found 1e+300"),
    "out of range": (f"{RUN} --methods swr --hyper coefficient=7", "coefficient λ must be a number between 0 and 1, found 7.0"),
    "twice": (f"{RUN} --methods l2 --hyper coefficient=1 coefficient=2", "--hyper must be one value for each name"),
    "a seed": (f"{RUN} --methods l2 --hyper seed=1", "--hyper must be without a seed, which --seeds sets"),
    "half a step": (f"{RUN} --methods swr --hyper every=1.5 coefficient=0.1", "every must be a whole number, at least 1"),
    "empty": (f"{RUN} --methods swr --hyper ''", "--hyper wants NAME=VALUE with a number, found ''"),
}
EXPLAIN = {
    "a factory that raises": (
        "explain mymodels:broken --input 1x4",
        "mymodels:broken was called and raised FileNotFoundError: weights.pt is not here: the error is in the factory",
    ),
    "an input beyond memory": (
        "explain mymodels:net --input 100000x100000x100000",
        "an input of shape 100000x100000x100000 takes 8,000,000 GB, and this machine has",
    ),
    "integers": ("explain mymodels:net --input int:1x4", "have another dtype than the model: 0 multiplies int64 by float32"),
}
DATA = {
    "one class": ("run generalization --columns folder:single-cnn", "train holds one class only, cat"),
    "a link into itself": ("run generalization --columns folder:linked-cnn", "is a symbolic link back to"),
    "truncated": ("run generalization --columns mnist-mlp --data cut", "t10k-labels-idx1-ubyte is truncated"),
}
STORES = {
    "an empty store": ("status --store empty.sqlite", "empty.sqlite is empty, not a store"),
    "an empty store to export": ("export -o new --store empty.sqlite", "empty.sqlite is empty, not a store"),
    "an empty store to report on": ("report --store empty.sqlite", "empty.sqlite is empty, not a store"),
    "an export of another store": ("export -o files --store other.sqlite", "files holds 1 run that other.sqlite lacks"),
    "a foreign file": ("export -o foreign --store other.sqlite", "metrics.csv is no file that `swr export` wrote, and is kept"),
    "a run that was cut": ("import cut-files --store other.sqlite", "holds 1 of its 2 epochs, epoch 2 is missing"),
    "an impossible accuracy": ("import wrong-files --store other.sqlite", "test_accuracy in epoch 1 of run"),
}
LINES = {
    f"{kind}: {name}": row
    for kind, rows in (("chosen", CHOSEN), ("hyper", HYPER), ("explain", EXPLAIN), ("data", DATA), ("store", STORES))
    for name, row in rows.items()
}


@pytest.fixture
def mistakes(folder, monkeypatch):
    """A folder with everything that the lines refer to."""
    monkeypatch.setenv("SWR_CACHE", str(folder.parent / "elsewhere"))
    monkeypatch.delenv("SWR_DATA", raising=False)
    monkeypatch.syspath_prepend(str(folder))
    (folder / "mymodels.py").write_text(MODELS)
    image_folder(folder / "single", classes=("cat",))
    (image_folder(folder / "linked") / "train/cat/again").symlink_to(folder / "linked")
    files = mnist_files()
    monkeypatch.setitem(SOURCES, "mnist", small("mnist", files))
    write(folder / "cut", {name: data[:-1] if "t10k-labels" in name else data for name, data in files.items()})
    (folder / "empty.sqlite").touch()
    finished("mine.sqlite", [config(0, epochs=1)])
    finished("other.sqlite", [config(1, epochs=1)])
    export(folder / "mine.sqlite", folder / "files")
    (folder / "foreign").mkdir()
    (folder / "foreign/metrics.csv").write_text("step,loss\n")
    finished("cut.sqlite", [config(2, epochs=2)])
    export(folder / "cut.sqlite", folder / "cut-files")
    text = (folder / "cut-files/metrics.csv").read_text()
    (folder / "cut-files/metrics.csv").write_text(text.replace(",2,0,2,", ",1,0,2,"))
    (folder / "cut-files/norms.csv").write_text(
        (folder / "cut-files/norms.csv").read_text().replace(",2,1.weight", ",1,1.weight")
    )
    export(folder / "mine.sqlite", folder / "wrong-files")
    text = (folder / "wrong-files/metrics.csv").read_text()
    (folder / "wrong-files/metrics.csv").write_text(text.replace(",0.9,", ",1.9,"))
    return folder


def contents(folder):
    """Every file that a user would miss or find; what Python and SQLite keep beside theirs is left out."""
    left_out = ("__pycache__", "-wal", "-shm")
    return {
        path.relative_to(folder): None if path.is_dir() else path.read_bytes()
        for path in sorted(folder.glob("**/*"))
        if not any(word in str(path) for word in left_out)
    }


@pytest.mark.parametrize("name", LINES)
def test_one_sentence_code_2_and_nothing_changed(name, mistakes, capfd):
    line, sentence = LINES[name]
    before = contents(mistakes)
    with pytest.raises(SystemExit) as end:
        main(shlex.split(line))
    out, err = capfd.readouterr()
    assert (end.value.code, out) == (2, ""), err
    assert err.startswith("swr: ")
    assert sentence in err
    assert err.count("\n") == 1
    assert "Traceback" not in err
    assert contents(mistakes) == before


@pytest.mark.parametrize("line", ["data list", "data download mnist", "run generalization --columns mnist-mlp"])
def test_a_mistyped_swr_data_is_one_sentence_and_not_created(line, mistakes, monkeypatch, capfd):
    monkeypatch.setenv("SWR_DATA", str(mistakes / "dtaa"))
    with pytest.raises(SystemExit) as end:
        main(line.split())
    out, err = capfd.readouterr()
    assert (end.value.code, out) == (2, "")
    assert err == f"swr: SWR_DATA names {mistakes / 'dtaa'}, which does not exist: correct it, or create the folder\n"
    assert not (mistakes / "dtaa").exists()


def test_truncated_files_are_not_listed_as_found(mistakes, swr):
    code, out, _ = swr("data list --data cut")
    assert code == 0
    row = next(line for line in out.splitlines() if line.startswith("mnist "))
    assert row.split()[1] == "no"
    assert "truncated" in out


def test_a_whole_number_as_a_hyper_parameter_works(swr, folder):
    code, out, err = swr(f"{RUN} --methods swr --hyper every=2 coefficient=0.1 --epochs-scale 0.005 --workers 1")
    assert code == 0, err
    assert "SWR" in out


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))


X = torch.zeros(2, 4)


def load(model, anchor):
    """Load a state with this anchor."""
    rescaler = library.SoftWeightRescaling(model, X)
    state = rescaler.state_dict()
    rescaler.load_state_dict({**state, "anchors": {**state["anchors"], "0.weight": anchor}})


LIBRARY = {
    "rescale by a text": (lambda m: library.rescale(m, library.analyze(m, X), {"0.weight": "big"}), "found 'big'"),
    "rescale by 1e300": (lambda m: library.rescale(m, library.analyze(m, X), {"0.weight": 1e300}), "the range of float32"),
    "doubles": (lambda m: library.analyze(m, X.double()), "another dtype than the model"),
    "integers": (lambda m: library.SoftWeightRescaling(m, X.long()), "another dtype than the model"),
    "an anchor that is a text": (lambda m: load(m, "3"), "found '3'"),
    "an anchor that is not-a-number": (lambda m: load(m, math.nan), "found nan"),
    "a negative anchor": (lambda m: load(m, -1.0), "found -1.0"),
}


@pytest.mark.parametrize("name", LIBRARY)
def test_the_library_raises_one_sentence_and_changes_nothing(name):
    call, sentence = LIBRARY[name]
    model = net()
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(library.SWRError) as found:
        call(model)
    assert sentence in str(found.value)
    assert "\n" not in str(found.value)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
