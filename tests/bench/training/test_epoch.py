"""The record of an epoch, which most modules need and which needs nothing."""

import ast
import subprocess
import sys

from swr.bench.training import epoch


def test_the_record_imports_nothing_of_ours():
    with open(epoch.__file__) as file:  # noqa: PTH123
        tree = ast.parse(file.read())
    imported = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert imported == ["__future__", "dataclasses"]


def test_the_loop_is_imported_when_it_is_used_and_not_with_the_record():
    script = (
        "import sys, swr.bench.training as t; loop = 'swr.bench.training.loop';"
        "print(t.Epoch.__name__, loop in sys.modules, t.Training.__name__, loop in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["Epoch", "False", "Training", "True"]
