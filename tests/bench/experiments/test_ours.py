"""Experiments of our own."""

from swr.bench import experiments
from swr.bench.experiments.ours import OURS
from swr.bench.experiments.paper import PAPER


def test_the_cosine_is_generalization_with_another_schedule():
    cosine = experiments.expand("lr-cosine", columns=["cifar10-cnn"], seeds=1)
    constant = experiments.expand("generalization", columns=["cifar10-cnn"], seeds=1)
    assert {run.lr_schedule for run in cosine} == {"cosine"}
    assert [(run.method, run.hyper, run.epochs) for run in cosine] == [(run.method, run.hyper, run.epochs) for run in constant]


def test_none_is_called_the_papers():
    assert not set(OURS) & set(PAPER)
    assert all(experiments.published(name, column, "swr") is None for name in OURS for column in experiments.COLUMNS)
    assert all("not in the paper" in one.about for one in OURS.values())
