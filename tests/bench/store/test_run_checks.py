"""Which epochs can be those of a run."""

import math
from dataclasses import replace

import pytest
from toy import dataset, stream_config

from swr.bench.data import load
from swr.bench.experiments import STREAMS, RunConfig
from swr.bench.store import Provenance, Store
from swr.bench.store.exchange import export, merge
from swr.bench.store.run_checks import LAST_ALONE, ExchangeError, Found, check_epochs
from swr.bench.training.loop import trainer


def trained(config, data=None):
    training = trainer(config, data or dataset())
    return [training.epoch() for _ in range(config.total)]


def check(config, epochs, status="done", facts=None):
    found = [Found(config.identity, epoch, f"line {epoch.epoch}") for epoch in epochs]
    check_epochs("runs.csv, line 2", config, status, found, facts or {})


def stream(name):
    if name == "bit-flipping":
        return stream_config(name, column="bits-mlp5", examples=64), load("bits")
    if name == "changing-channels":
        return stream_config(name, column="cartpole-ppo", examples=1024), load("cartpole")
    return stream_config(name, tasks=4, examples=20 if name == "random-labels" else None), dataset()


@pytest.mark.parametrize("name", STREAMS)
def test_the_runs_of_every_stream_make_the_round_trip(name, tmp_path):
    config, data = stream(name)
    epochs = trained(config, data)
    with Store(tmp_path / "a") as store:
        store.add([config], Provenance({}, None, "host"))
        store.record(config.identity, epochs)
        store.finish(config.identity, {})
    export(tmp_path / "a", tmp_path / "files")
    merge(tmp_path / "files", tmp_path / "b")
    merge(tmp_path / "a", tmp_path / "c")
    for path in ("b", "c"):
        with Store(tmp_path / path) as store:
            assert repr(store.epochs(config.identity)) == repr(epochs)


def test_the_last_epoch_alone_is_a_result_but_no_other_one_is(tmp_path):
    config, data = stream("permuted-pixels")
    epochs = trained(config, data)
    with Store(tmp_path / "a") as store:
        store.add([config], Provenance({}, None, "host"))
        store.record(config.identity, epochs)
        store.finish(config.identity, {})
    assert "1 run and 1 epoch of" in export(tmp_path / "a", tmp_path / "files", last=True)
    merge(tmp_path / "files", tmp_path / "b")
    with Store(tmp_path / "b") as store:
        assert repr(store.epochs(config.identity)) == repr(epochs[-1:])
        [record] = store.runs()
    assert repr(record.last) == repr(epochs[-1])
    assert record.facts == LAST_ALONE, "so that it is not taken for a damaged run"
    check(config, epochs[-1:], facts=LAST_ALONE)
    for wrong, facts in ((epochs[:1], LAST_ALONE), (epochs[2:], LAST_ALONE), (epochs[-1:], {})):
        with pytest.raises(ExchangeError, match="is missing"):
            check(config, wrong, facts=facts)
    with pytest.raises(ExchangeError, match=r"stage in epoch 4 .* is 0, it must be 3"):
        check(config, [replace(epochs[-1], stage=0)], facts=LAST_ALONE)


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_without_what_it_is_judged_by_is_refused(name):
    config, data = stream(name)
    epochs = trained(config, data)
    bare = [replace(epoch, measures={}) for epoch in epochs]
    if not config.setting.metric.online:
        check(config, bare)
        return
    with pytest.raises(ExchangeError, match=f"{config.setting.metric.name} in epoch 1 .* is missing"):
        check(config, bare)


def plain(**more):
    config = RunConfig("warm-start", "digits-mlp", "vanilla", scenario="warm-start", epochs=(1, 2), **more)
    return config, trained(config)


def test_runs_of_the_loop_are_accepted_whole_and_in_part():
    for config, epochs in (plain(), plain(validation=0.2), plain(cold=True)):
        check(config, epochs)
        check(config, epochs[:1], "failed")
        check(config, [], "pending")
        with pytest.raises(ExchangeError, match=f"is done, but holds {len(epochs) - 1} of its {len(epochs)} epochs"):
            check(config, epochs[:-1])
        with pytest.raises(ExchangeError, match=r"is failed, but holds 1 of its . epochs, epoch 1 is missing"):
            check(config, epochs[1:2], "failed")


def test_more_epochs_than_there_are_is_refused():
    config, epochs = plain()
    with pytest.raises(ExchangeError, match=r"line 4: epoch in epoch 4 of run .* at most 3"):
        check(config, [*epochs, replace(epochs[-1], epoch=4)])


BAD = [math.nan, math.inf, -math.inf, -0.1, 1.1]


@pytest.mark.parametrize("value", BAD)
@pytest.mark.parametrize("name", ["train_accuracy", "test_accuracy", "validation_accuracy"])
def test_an_accuracy_is_from_0_to_1(name, value):
    config, epochs = plain(validation=0.2)
    epochs[1] = replace(epochs[1], **{name: value})
    with pytest.raises(ExchangeError, match=f"line 2: {name} in epoch 2 of run {config.identity} is"):
        check(config, epochs)


@pytest.mark.parametrize("value", BAD[:4])
@pytest.mark.parametrize("name", ["train_loss", "seconds", "norms", "measures"])
def test_other_numbers_are_finite(name, value):
    config, epochs = plain()
    changed = {"norms": epochs[1].norms | {"1.weight": value}, "measures": {"test_accuracy_at_start": value}}.get(name, value)
    epochs[1] = replace(epochs[1], **{name: changed})
    with pytest.raises(ExchangeError, match=r"line 2: .* in epoch 2 of run"):
        check(config, epochs)


def test_a_network_that_diverged_is_a_result():
    """A loss that is not finite goes into the weights, and averages over the stream never recover from it."""
    config, data = stream("bit-flipping")
    epochs = trained(config, data)
    lost = dict.fromkeys(epochs[0].norms, math.nan)
    measured = dict.fromkeys(epochs[-1].measures, math.nan)
    epochs[1] = replace(epochs[1], norms=lost)  # the last batch did it
    epochs[2] = replace(epochs[2], norms=lost, train_loss=math.inf, measures=measured)
    epochs[3] = replace(epochs[3], measures=measured)  # the method re-initialised the network
    check(config, epochs)
    with pytest.raises(ExchangeError, match="epoch 2 of run"):
        check(config, [*epochs[:2], replace(epochs[2], norms=epochs[0].norms), epochs[3]])
    with pytest.raises(ExchangeError, match=r"1\.weight in epoch 2 of run"):
        check(config, [*epochs[:2], replace(epochs[2], train_loss=1.0), epochs[3]])
    with pytest.raises(ExchangeError, match="average squared error in epoch 3 of run"):
        check(config, [epochs[0], *(replace(one, norms=epochs[0].norms, train_loss=1.0) for one in epochs[1:])])


def test_the_accuracy_of_a_regression_does_not_exist_and_others_must():
    config, data = stream("bit-flipping")
    epochs = trained(config, data)
    assert all(math.isnan(epoch.train_accuracy) and math.isnan(epoch.test_accuracy) for epoch in epochs)
    check(config, epochs)
    config, data = stream("permuted-pixels")
    epochs = trained(config, data)
    with pytest.raises(ExchangeError, match="test_accuracy in epoch 1"):
        check(config, [replace(epochs[0], test_accuracy=math.nan), *epochs[1:]])
