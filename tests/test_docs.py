"""Every example in the documentation runs."""

import doctest
import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest
import torch
from torch import nn

import swr
from swr.bench.data import load
from swr.bench.experiments import COLUMNS, STREAMS, RunConfig
from swr.methods import REGISTRY

ROOT = Path(__file__).parents[1]
MODULES = [m.name for m in pkgutil.walk_packages(swr.__path__, "swr.")]


def at_hand():
    """What the examples take for granted: a small network with its loop, a dataset, a run."""
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 10))
    return {
        "torch": torch,
        "Path": Path,
        "model": model,
        "x": torch.randn(2, 1, 8, 8),
        "optimizer": torch.optim.Adam(model.parameters()),
        "dataset": load("digits"),
        "index": torch.arange(4),
        "config": RunConfig("generalization", "digits-mlp", "vanilla", epochs=(1,)),
    }


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert doctest.testmod(importlib.import_module(name), extraglobs=at_hand()).failed == 0


def test_no_example_is_skipped():
    assert not [path for path in (ROOT / "src").rglob("*.py") if "+SKIP" in path.read_text()]


@pytest.mark.parametrize("page", ["README.md", *(f"docs/{p.name}" for p in sorted((ROOT / "docs").glob("*.md")))])
def test_python_blocks_of_a_page_run_in_order(page):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), flags=re.S)
    with mock.patch.dict(REGISTRY), mock.patch.dict(STREAMS), mock.patch.dict(COLUMNS):  # a page may add to them
        exec(compile("\n".join(blocks), page, "exec"), {"__name__": "page"})
    assert blocks or page != "README.md"


def test_the_quickstart_example_shows_the_gain():
    run = subprocess.run(
        [sys.executable, ROOT / "examples/quickstart.py", "--epochs", "25"], check=True, capture_output=True, text=True
    )
    accuracy = {name: float(value) for name, value in re.findall(r"^  (.+?)\s+(0\.\d+)  #+$", run.stdout, flags=re.M)}
    assert accuracy["SWR, warm start"] > accuracy["vanilla, warm start"] + 0.02
