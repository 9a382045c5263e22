"""What a run was, in words."""

import sys
from dataclasses import replace

import pytest

from swr.bench.experiments import RunConfig
from swr.bench.experiments import run_description as protocol

OWN = """
from swr.methods import Method

class Nothing(Method):
    \"\"\"Do nothing, slowly.\"\"\"
    title = "nothing"

number = 3
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "ownmethods.py").write_text(OWN)
    (tmp_path / "untold.py").write_text(OWN)


def test_what_a_file_of_results_names_is_not_imported(own):
    config = RunConfig("generalization", "mnist-mlp", "untold:Nothing", epochs=(20,))
    assert protocol.label(config) == "20 of 200 epochs"
    assert protocol.command(config, [0]) == (
        "swr run generalization --columns mnist-mlp --methods untold:Nothing --seeds 1 --epochs-scale 0.1"
    )
    other = replace(config, hyper=(("scale", 0.5),))
    assert str(protocol.command(other, [0])).endswith("--hyper scale=0.5")
    assert "untold" not in sys.modules
