"""Help texts."""

import subprocess
import sys

import pytest

from swr.bench.experiments import COLUMNS, experiments


@pytest.mark.parametrize("line", ["", "--help", "run --help", "sweep --help", "status --help", "data --help", "explain --help"])
def test_help_teaches_with_examples(swr, line):
    code, out, _ = swr(line)
    assert code == 0
    assert "Examples:\n  swr " in out


def test_every_experiment_and_column_is_in_the_help_of_run(swr):
    _, out, _ = swr("run --help")
    for name, experiment in experiments().items():
        assert f"  {name} " in out
        assert experiment.about.split()[0] in out
    for name in COLUMNS:
        assert f"  {name} " in out


def test_parsing_the_command_line_imports_its_options_only():
    script = "import sys, swr.bench.cli.options; print(*sorted(m for m in sys.modules if m.startswith('swr.bench')))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["swr.bench", "swr.bench.cli", "swr.bench.cli.entry", "swr.bench.cli.options"]
