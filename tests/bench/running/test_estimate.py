"""How long runs will take."""

import pytest
import torch
from job_tasks import epoch

from swr.bench import experiments
from swr.bench.data import load
from swr.bench.running.estimate import Estimator, unit
from swr.bench.training import Training


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


def test_a_column_is_timed_with_whole_batches_and_with_its_evaluation(monkeypatch):
    """A step costs a second and a hundredth for each example, as on a large network, and evaluating a quarter of the latter."""
    [config] = experiments.expand("warm-start", columns=["digits-mlp"], methods=["vanilla"], seeds=1)
    dataset, now = load("digits"), [0.0]

    def train(self, indices):
        now[0] += sum(1.0 + 0.01 * len(part) for part in indices.split(self.config.batch_size))
        return torch.zeros(2)

    def evaluate(self, feed, view, index):
        now[0] += 0.0025 * len(index)
        return torch.zeros(())

    monkeypatch.setattr(Training, "pass_over", train)
    monkeypatch.setattr(Training, "accuracy", evaluate)
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    estimator = Estimator()
    estimator.calibrate(config, dataset, "cpu")
    trained, tested = len(dataset.train.labels), len(dataset.test.labels)
    epoch_of_all = trained / config.batch_size + 0.01 * trained + 0.0025 * tested
    assert estimator.rate(config) * unit(config, 1) == pytest.approx(epoch_of_all, rel=1e-3)
