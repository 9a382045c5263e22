"""Every example in the documentation runs."""

import doctest
import importlib
import pkgutil
import re
import subprocess
import sys
import tomllib
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
    torch.manual_seed(0)  # so that an example that depends on the initialisation fails always or never
    assert doctest.testmod(importlib.import_module(name), extraglobs=at_hand()).failed == 0


def test_no_example_is_skipped():
    assert not [path for path in (ROOT / "src").rglob("*.py") if "+SKIP" in path.read_text()]


PAGES = ["README.md", *(f"docs/{p.name}" for p in sorted((ROOT / "docs").glob("*.md")))]
NOT_TESTED = "(not tested)"  # in a heading: the framework cannot be installed here; its blocks are compiled and not run
WHERE_INSTALLED = re.compile(r"\(run where (\w+) is installed\)")  # in a heading: its blocks are a test of their own


def sections(page):
    """Every heading of a page with the Python blocks below it."""
    parts = re.split(r"^(#+ .*)$", (ROOT / page).read_text(), flags=re.M)
    headings = ["", *parts[1::2]]
    return [(h, re.findall(r"```python\n(.*?)```", text, flags=re.S)) for h, text in zip(headings, parts[::2], strict=True)]


def run_blocks(blocks, page):
    with mock.patch.dict(REGISTRY), mock.patch.dict(STREAMS), mock.patch.dict(COLUMNS):  # a page may add to them
        exec(compile("\n".join(blocks), page, "exec"), {"__name__": "page"})


OF_OTHERS = [  # what frameworks say while the blocks run
    pytest.mark.filterwarnings("ignore:.*does not have many workers:UserWarning"),  # Lightning's advice on speed
    pytest.mark.filterwarnings("ignore:.*isinstance.treespec, LeafSpec.:FutureWarning"),  # its use of torch's pytree
    pytest.mark.filterwarnings("ignore:.*pin_memory.*no accelerator is found:UserWarning"),  # the Trainer's
    pytest.mark.filterwarnings("ignore:.*the norm was zero or not finite:swr.ModelWarning"),  # ours, of LoRA
]


def marked(test):
    for mark in OF_OTHERS:
        test = mark(test)
    return test


@marked
@pytest.mark.parametrize("page", PAGES)
def test_python_blocks_of_a_page_run_in_order(page, monkeypatch):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    run = []
    for heading, blocks in sections(page):
        if NOT_TESTED in heading or WHERE_INSTALLED.search(heading):
            assert blocks, f"{heading} has no block that could be tested"
            for block in blocks:
                compile(block, f"{page}, {heading}", "exec")
        else:
            run += blocks
    run_blocks(run, page)
    assert run or page != "README.md"


OPTIONAL = [(page, heading) for page in PAGES for heading, _ in sections(page) if WHERE_INSTALLED.search(heading)]


@marked
@pytest.mark.parametrize(("page", "heading"), OPTIONAL)
def test_blocks_of_a_framework_that_is_not_in_the_dev_extra_run_where_it_is_installed(page, heading):
    pytest.importorskip(WHERE_INSTALLED.search(heading).group(1))
    run_blocks(dict(sections(page))[heading], page)


@pytest.mark.parametrize("page", PAGES)
def test_no_python_block_of_a_page_escapes_the_tests(page):
    fences = re.findall(r"^```(\w+)$", (ROOT / page).read_text(), flags=re.M)
    assert not {"py", "python3", "Python"} & set(fences)  # pycon: copied from docstrings, where it is run


def test_a_framework_that_is_not_tested_is_not_installed_with_the_dev_extra():
    """Or its blocks could be run."""
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["dev"]
    names = {re.split(r"[\[>=]", each)[0].replace("-", "").lower() for each in wanted}
    skipped = [h.strip("# ").split(" (")[0].lower() for page in PAGES for h, _ in sections(page) if NOT_TESTED in h]
    assert skipped
    assert not set(skipped) & names


def test_the_quickstart_example_shows_the_gain():
    run = subprocess.run(
        [sys.executable, ROOT / "examples/quickstart.py", "--epochs", "25"], check=True, capture_output=True, text=True
    )
    accuracy = {name: float(value) for name, value in re.findall(r"^  (.+?)\s+(0\.\d+)  #+$", run.stdout, flags=re.M)}
    assert accuracy["SWR, warm start"] > accuracy["vanilla, warm start"] + 0.02
