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


def test_a_first_stage_that_is_taken_over_takes_no_time():
    one, two = experiments.expand("proportionality", columns=["digits-mlp"], methods=["naive-scaling"], seeds=1)[:2]
    estimator = Estimator()
    estimator.measured(one, epoch(1, seconds=1.0))
    estimator.measured(one, epoch(2, seconds=0.0))
    assert estimator.remaining([(one, None), (two, None)], 1) == pytest.approx(300)
    estimator.spare([two])
    assert estimator.remaining([(one, None), (two, None)], 1) == pytest.approx(200)
    assert estimator.whole(two) == estimator.work([(two, None)]) == pytest.approx(50)
    assert estimator.work([(two, epoch(110, 150))]) == pytest.approx(40)
