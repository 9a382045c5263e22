"""Every example in the documentation runs."""

import doctest
import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import swr

ROOT = Path(__file__).parents[1]
MODULES = [m.name for m in pkgutil.walk_packages(swr.__path__, "swr.") if not m.name.startswith("swr.bench")]


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name):
    assert doctest.testmod(importlib.import_module(name), extraglobs={"torch": __import__("torch")}).failed == 0


@pytest.mark.parametrize("page", ["README.md", *(f"docs/{p.name}" for p in sorted((ROOT / "docs").glob("*.md")))])
def test_python_blocks_of_a_page_run_in_order(page):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), flags=re.S)
    exec(compile("\n".join(blocks), page, "exec"), {"__name__": "page"})
    assert blocks or page != "README.md"


def test_the_quickstart_example_shows_the_gain():
    run = subprocess.run(
        [sys.executable, ROOT / "examples/quickstart.py", "--epochs", "25"], check=True, capture_output=True, text=True
    )
    accuracy = {name: float(value) for name, value in re.findall(r"^  (.+?)\s+(0\.\d+)  #+$", run.stdout, flags=re.M)}
    assert accuracy["SWR, warm start"] > accuracy["vanilla, warm start"] + 0.02
