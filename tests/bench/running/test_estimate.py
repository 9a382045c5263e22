"""How long runs will take."""

import pytest
from job_tasks import epoch

from swr.bench import experiments
from swr.bench.running.estimate import Estimator


def test_an_honest_estimate():
    """Two runs of which one is half done, at one second an epoch on half, two on all the data."""
    one, two = experiments.expand("quickstart", seeds=1, methods=["vanilla", "swr"])
    half, whole = one.epochs
    estimator = Estimator()
    assert estimator.remaining([(one, None)], 1) is None
    estimator.measured(one, epoch(1, stage=0, seconds=0.56))
    estimator.measured(one, epoch(2, stage=1, seconds=1.06))
    expected = half * 0.56 + whole * 1.06
    assert estimator.remaining([(one, None)], 4) == pytest.approx(expected)
    last = epoch(half, stage=0)
    assert estimator.remaining([(one, last), (two, None)], 1) == pytest.approx(expected + whole * 1.06)
    assert estimator.remaining([(one, last), (two, None)], 2) == pytest.approx(expected), "the longer of the two"
