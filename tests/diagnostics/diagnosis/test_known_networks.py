"""Verdicts on networks whose plasticity is known; the same as `python examples/diagnose_known.py` prints."""

import runpy
from pathlib import Path

import pytest
import torch.nn.functional as F

import swr
from swr.diagnostics.diagnosis.advice import culprit

EXAMPLE = runpy.run_path(str(Path(__file__).parents[3] / "examples" / "diagnose_known.py"))

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def known():
    pytest.importorskip("sklearn")
    x, y = EXAMPLE["images"]("digits")
    make = EXAMPLE["factory"](x.shape[1])
    batches = list(zip(x.split(128), y.split(128), strict=True))
    return make, batches, EXAMPLE["known_networks"](make, x, y, seed=0)


@pytest.mark.parametrize("task", ["relabelled", "shuffled"])
@pytest.mark.parametrize("index", range(10))
def test_the_verdict_on_a_known_network_is_right(known, index, task):
    make, batches, networks = known
    assert len(networks) == 10
    one = networks[index]
    found = swr.diagnose(one.network, batches, F.cross_entropy, fresh=make, targets=task)
    assert found.verdict in getattr(one, task).split(), (one.name, found.sentence)
    if one.layer is not None:
        assert culprit(found.layers).name == one.layer, (one.name, str(found))
