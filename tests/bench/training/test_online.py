"""Averages over a stream, while it is learnt."""

import math

from job_tasks import epoch
from toy import stream_config

from swr.bench import experiments
from swr.bench.data import load
from swr.bench.experiments import ACCURACY, ERROR, FIRST, LAST
from swr.bench.training import Training
from swr.bench.training.online import Online, final, present


def test_only_hard_tasks_count():
    online = Online(experiments.find_scenario("five-plus-one"), tasks=4)
    for number, accuracy in enumerate([0.4, 1.0, 0.2, 1.0]):
        online.add(number, accuracy)
    assert math.isclose(online.measures()[ACCURACY.name], 0.3)
    one = stream_config("five-plus-one")
    assert present(one, epoch(1, stage=1)) is None
    assert present(one, epoch(1, stage=2)) == 0.5


def test_the_average_is_that_of_every_batch_before_its_update():
    one = stream_config("permuted-pixels", tasks=20, examples=64, batch_size=32)
    training = Training(one, load("digits"))
    epochs = [training.epoch() for _ in range(20)]
    online = [row.train_accuracy for row in epochs]
    found = epochs[-1].measures
    assert math.isclose(found[ACCURACY.name], sum(online) / 20)
    assert math.isclose(found[FIRST], sum(online[:2]) / 2)
    assert math.isclose(found[LAST], sum(online[-2:]) / 2)
    assert final(one, epochs[-1]) == found[ACCURACY.name]
    assert math.isclose(final(one, epochs[4]), sum(online[:5]) / 5)
    assert "test_accuracy_at_start" not in epochs[3].measures


def test_a_regression_has_squared_errors_and_no_accuracy():
    training = Training(stream_config("bit-flipping", column="bits-mlp5", examples=64, batch_size=16), load("bits"))
    row = training.epoch()
    assert math.isnan(row.train_accuracy)
    assert math.isnan(row.test_accuracy)
    assert row.measures[ERROR.name] == row.train_loss > 0
