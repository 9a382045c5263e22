"""The command `diagnose`."""

import hashlib
import json
import sys

import pytest
import torch
from torch import nn

MODULE = """
import torch
from torch import nn

def make():
    return nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4))

one = make()

def batches():
    torch.manual_seed(0)
    return [(torch.randn(32, 12), torch.randint(4, (32,))) for _ in range(4)]

few = batches()

def broken():
    raise ValueError("no such data")
"""

QUICK = "--steps 100 --seeds 3 --lr 3e-3"


@pytest.fixture
def mine(folder, monkeypatch):
    """A module of the user's, and the checkpoint of a network most of whose first layer is silent."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "mynets", raising=False)
    (folder / "mynets.py").write_text(MODULE)
    torch.manual_seed(7)
    net = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4))
    torch.save(net.state_dict(), folder / "fresh.pt")
    net[0].bias.data[:29] = -1e3
    torch.save({"epoch": 3, "state_dict": net.state_dict()}, folder / "silent.pt")
    torch.save((torch.randn(128, 12), torch.randint(4, (128,))), folder / "data.pt")
    return folder


def test_a_damaged_network_is_told_from_a_fresh_one_and_the_files_are_only_read(swr, mine):
    before = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in mine.glob("*.pt")}
    code, out, _ = swr(f"diagnose mynets:make --checkpoint silent.pt --data data.pt {QUICK} -o page.html --json all.json")
    assert code == 0
    answer = " ".join(out.splitlines()[:5])
    assert "plasticity; re-initialising layer 0 alone closes" in answer
    assert max(map(len, out.splitlines())) <= 80
    assert json.loads((mine / "all.json").read_text())["verdict"] in ("some", "lost")
    assert "<svg" in (mine / "page.html").read_text()
    assert before == {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in mine.glob("*.pt")}
    code, out, _ = swr(f"diagnose mynets:make --checkpoint fresh.pt --data data.pt {QUICK}")
    assert code == 0
    assert "it has lost no plasticity" in " ".join(out.split())


@pytest.mark.parametrize("data", ["--data mynets:batches", "--data mynets:few", "--input 32x12"])
def test_batches_come_from_a_function_a_list_or_a_shape(swr, mine, data):
    code, out, err = swr(f"diagnose mynets:make --checkpoint fresh.pt {data} --steps 20 --seeds 2 --no-layers")
    assert (code, err) == (0, "")
    assert out.startswith("after 20 steps on the given batches")
    assert ("noise with random targets" in out) == ("--input" in data)


def test_a_regression(swr, mine):
    torch.save({"inputs": torch.randn(64, 12), "targets": torch.randn(64, 4)}, mine / "numbers.pt")
    code, out, _ = swr(
        "diagnose mynets:make --checkpoint fresh.pt --data numbers.pt --loss mse --steps 100 --seeds 2 --no-layers"
    )
    assert code == 0
    assert "in loss" in out


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("mynets:make --checkpoint gone.pt --data data.pt", "there is no file gone.pt"),
        ("mynets:make --checkpoint mynets.py --data data.pt", "mynets.py could not be read as tensors alone"),
        ("mynets:make --checkpoint evil.pt --data data.pt", "evil.pt could not be read as tensors alone"),
        ("mynets:make --checkpoint data.pt --data data.pt", "data.pt holds a tuple, not a state dict"),
        ("torch.nn:ReLU --checkpoint fresh.pt --data data.pt", "the checkpoint also has 0.weight, 0.bias, 2.weight …"),
        ("mynets:make --checkpoint wide.pt --data data.pt", "size mismatch for 0.weight"),
        ("mynets:one --checkpoint fresh.pt --data data.pt", "gives the same model each time"),
        ("mynets:make --checkpoint fresh.pt", "give either --data"),
        ("mynets:make --checkpoint fresh.pt --data data.pt --input 3x12", "give either --data"),
        ("mynets:make --checkpoint fresh.pt --data fresh.pt", "must hold two tensors"),
        ("mynets:make --checkpoint fresh.pt --data mynets:broken", "could not be read (ValueError: no such data)"),
        ("mynets:make --checkpoint fresh.pt --data mynets:absent", "mynets has no 'absent'"),
        ("mynets:make --checkpoint fresh.pt --data data.pt --batch-size 0", "--batch-size must be at least 1"),
        ("mynets:make --checkpoint fresh.pt --data data.pt --seeds 1", "seeds must be a whole number, at least 2"),
        ("mynets:make --checkpoint fresh.pt --data data.pt -o nowhere/p.html", "the folder nowhere of p.html does not exist"),
    ],
)
def test_wrong_usage_is_one_sentence_and_code_2(swr, mine, line, sentence):
    torch.save(nn.Linear(2, 2), mine / "evil.pt")  # a pickled object, not tensors
    torch.save({"0.weight": torch.zeros(33, 12)}, mine / "wide.pt")
    code, out, err = swr(f"diagnose {line}")
    assert (code, out) == (2, "")
    assert err.startswith("swr: ")
    assert sentence in err
    assert err.count("\n") == 1
