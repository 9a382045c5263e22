"""Help texts."""

import pytest


@pytest.mark.parametrize("line", ["", "--help", "run --help", "sweep --help", "status --help", "data --help", "explain --help"])
def test_help_teaches_with_examples(swr, line):
    code, out, _ = swr(line)
    assert code == 0
    assert "Examples:\n  swr " in out
