"""`import swr` needs torch and nothing from the extras."""

import subprocess
import sys

import pytest

EXTRAS = (
    *("numpy", "PIL", "pooch", "rich", "sklearn", "tyro", "scipy", "altair", "jinja2", "vl_convert", "ray", "swr.bench"),
    *("lightning", "accelerate", "transformers", "gymnasium", "tensorboard"),
    *("peft", "skrl", "stable_baselines3", "tensordict", "torchrl", "trl"),
)


def imported_by(statement):
    """The extras that a statement imports beyond what torch alone already does."""
    listed = f"print(*[m for m in {EXTRAS} if m in set(sys.modules) - before])"
    code = f"import sys, torch; before = set(sys.modules); {statement}; {listed}"
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()


def test_importing_swr_imports_no_extra():
    assert imported_by("import swr") == []


def test_that_test_can_fail():
    pytest.importorskip("rich")
    assert "rich" in imported_by("import swr, rich")
