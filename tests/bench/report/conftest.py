"""One small store with everything a report can show, read and rendered once."""

from dataclasses import replace

import pytest
from stores import curve, traceback

from swr.bench import experiments
from swr.bench.report import page
from swr.bench.report.results import load
from swr.bench.store import Provenance, Store

HERE = Provenance({"swr": "0.1", "torch": "2.13.0"}, "0123abc", "one")


def configs():
    """Warm start, ten stages, falling learning rates, two sweeps, proportionality, balancedness: about 30 epochs each."""
    found = experiments.expand("warm-start", columns=["mnist-mlp", "cifar10-cnn"], seeds=2, epochs_scale=0.15)
    found += experiments.expand("continual-full", columns=["mnist-mlp"], methods=["vanilla", "swr"], seeds=2, epochs_scale=0.03)
    found += experiments.expand("lr-decay", columns=["cifar10-cnn"], seeds=2, epochs_scale=0.15)
    found += experiments.expand("proportionality", seeds=2, epochs_scale=0.1)
    found += experiments.expand("balancedness", seeds=2, epochs_scale=0.1)
    for column, method in (("mnist-mlp", "l2"), ("mnist-mlp", "swr"), ("cifar100-cnnbn", "swr")):
        found += experiments.sweep("generalization", column, method, seeds=2, epochs_scale=0.05)
    return found


def epochs(config):
    """Plausible epochs, with what the experiment measures besides."""
    found = curve(config)
    if config.experiment == "balancedness":
        return [replace(e, measures={"l2,2 over minimum": 1 + 0.01 * e.epoch, "loss of units": 0.5}) for e in found]
    ratio = dict(config.hyper).get("ratio")
    if ratio is None:
        return found
    start = 0.6 * (ratio if config.method == "naive-scaling" else 1)
    return [replace(e, measures={"test_accuracy_at_start": start}) if e.epoch == config.epochs[0] + 1 else e for e in found]


@pytest.fixture(scope="session")
def full(tmp_path_factory):
    """The path of a store whose runs are done, but for one that failed, one that was stopped and one that never began."""
    path = tmp_path_factory.mktemp("report") / "swr.sqlite"
    runs = configs()
    with Store(path) as store:
        store.add(runs, HERE)
        for index, config in enumerate(runs[:-1]):
            store.start(config.identity, HERE)
            if index == 3:
                store.record(config.identity, epochs(config)[:5])
                store.fail(config.identity, traceback("the loss fell over"))
            elif index == 5:
                store.record(config.identity, epochs(config)[:7])
                store.release(config.identity)
            else:
                store.record(config.identity, epochs(config))
                store.finish(config.identity, {})
    return path


@pytest.fixture(scope="session")
def results(full):
    return load(full)


@pytest.fixture(scope="session")
def html(results):
    return page.render(results)
