"""The field's streams: what each task shows, what a run is judged by, and how it goes on after an interruption."""

import math
from dataclasses import asdict, replace
from itertools import pairwise

import pytest
import torch
from job_tasks import epoch
from torch import nn

from swr.bench import bits, paper, results, scenarios, streams, tasks
from swr.bench.config import RunConfig
from swr.bench.data import Dataset, Split, load
from swr.bench.feed import Feed
from swr.bench.online import Online, final, present
from swr.bench.provenance import Provenance
from swr.bench.store import Store
from swr.bench.training import Training, run
from swr.errors import OptionError

CLASSES = 13


def dataset(channels: int = 1) -> Dataset:
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(256, (130, channels, 4, 4), dtype=torch.uint8, generator=generator)
    labels = torch.arange(130) % CLASSES
    return Dataset("toy", CLASSES, Split(images, labels), Split(images[:39], labels[:39]), (0.5,) * channels, (0.3,) * channels)


def config(scenario: str, tasks: int = 4, **changes) -> RunConfig:
    given = {"column": "digits-mlp", "method": "vanilla", "scenario": scenario, "epochs": (1,) * tasks, **changes}
    return RunConfig(scenario, **given)


def shown(run: RunConfig, number: int, data: Dataset | None = None) -> tasks.Task:
    data = data or dataset()
    return tasks.task(run, number, data.train, data.test, data.classes)


def of_tasks(run: RunConfig) -> list[torch.Tensor]:
    return [stage.indices for stage in scenarios.prepare(run, dataset()).stages]


def test_every_task_shows_the_pixels_in_a_new_order():
    one = config("permuted-pixels")
    orders = [tuple(shown(one, number).train.pixels.tolist()) for number in range(4)]
    assert len(set(orders)) == 4
    assert all(sorted(order) == list(range(16)) for order in orders)
    assert orders[0] == tuple(shown(one, 0).test.pixels.tolist())
    assert orders[0] != tuple(shown(replace(one, seed=1), 0).train.pixels.tolist())


@pytest.mark.parametrize("scenario", ["permuted-pixels", "random-labels", "label-permutation"])
def test_all_methods_of_a_seed_see_the_same_stream(scenario: str):
    for number in range(3):
        first, second = (shown(config(scenario, method=name), number).train for name in ("vanilla", "redo"))
        for one, other in zip(vars(first).values(), vars(second).values(), strict=True):
            assert (one is None and other is None) or torch.equal(one, other)


@pytest.mark.parametrize("channels_last", [False, True])
def test_pixels_move_together_in_all_channels(channels_last: bool):
    data = dataset(channels=3)
    view = shown(config("permuted-pixels"), 1, data).train
    feed = Feed(data.train, data, channels_last=channels_last)
    index = torch.tensor([5, 2])
    plain, labels = feed.batch(index)
    moved, same = view.batch(feed, index)
    assert torch.equal(labels, same)
    assert not torch.equal(plain, moved)
    assert torch.equal(moved.flatten(2), plain.flatten(2)[:, :, view.pixels])


def test_random_labels_shuffle_those_of_the_same_images():
    one, data = config("random-labels", examples=40), dataset()
    chosen = of_tasks(one)
    assert all(torch.equal(chosen[0], other) for other in chosen)
    assert len(chosen[0].unique()) == 40
    labels = [shown(one, number).train.labels for number in range(3)]
    for found in labels:
        assert torch.equal(
            found[chosen[0]].bincount(minlength=CLASSES), data.train.labels[chosen[0]].bincount(minlength=CLASSES)
        )
        assert not torch.equal(found[chosen[0]], data.train.labels[chosen[0]])
    assert not torch.equal(labels[0], labels[1])
    assert len(shown(one, 0).tested) == 0


def test_a_label_permutation_renames_the_classes_of_both_splits_alike():
    one, data = config("label-permutation", examples=30), dataset()
    names = []
    for number in range(3):
        task = shown(one, number)
        pairs = set(zip(data.train.labels.tolist(), task.train.labels.tolist(), strict=True))
        assert pairs == set(zip(data.test.labels.tolist(), task.test.labels.tolist(), strict=True))
        assert len(pairs) == CLASSES == len({new for _, new in pairs})
        names.append(frozenset(pairs))
    assert len(set(names)) == 3
    examples = of_tasks(one)
    assert {len(indices) for indices in examples} == {30}
    assert not torch.equal(examples[0], examples[1])


def test_five_plus_one_never_shows_a_class_twice():
    data = dataset()
    classes = [set(data.train.labels[indices].tolist()) for indices in of_tasks(config("five-plus-one"))]
    assert [len(found) for found in classes] == [5, 1, 5, 1]
    assert len(set().union(*classes)) == 12
    task = shown(config("five-plus-one"), 2)
    assert set(data.test.labels[task.tested].tolist()) == classes[2]
    with pytest.raises(OptionError, match="need 18 classes, and there are 13"):
        of_tasks(config("five-plus-one", tasks=6))


def test_only_hard_tasks_count():
    online = Online("five-plus-one", tasks=4)
    for number, accuracy in enumerate([0.4, 1.0, 0.2, 1.0]):
        online.add(number, accuracy)
    assert math.isclose(online.measures()[streams.ACCURACY], 0.3)
    assert present("five-plus-one", epoch(1, stage=1)) is None
    assert present("five-plus-one", epoch(1, stage=2)) == 0.5


def test_class_incremental_adds_classes_and_hides_the_others():
    one, data = config("class-incremental"), dataset()
    classes = [set(data.train.labels[indices].tolist()) for indices in of_tasks(one)]
    assert [len(found) for found in classes] == [4, 7, 10, 13]
    assert all(before < after for before, after in pairwise(classes))
    task = shown(one, 1)
    outputs = torch.randn(6, CLASSES)
    counted = task.train.outputs(outputs)
    assert set(counted.isfinite().all(0).nonzero().flatten().tolist()) == classes[1]
    assert set(data.test.labels[task.tested].tolist()) == classes[1]
    assert shown(one, 3).train.outputs(outputs).isfinite().all()


def test_hidden_outputs_get_no_gradient():
    view = tasks.View(hidden=torch.tensor([1]))
    outputs = torch.tensor([[1.0, 9.0, 2.0]], requires_grad=True)
    nn.functional.cross_entropy(view.outputs(outputs), torch.tensor([0])).backward()
    assert outputs.grad[0, 1] == 0
    assert outputs.grad[0, 0] == -outputs.grad[0, 2] != 0


def test_the_target_of_bit_flipping_is_the_network_of_threshold_units():
    target, inputs = bits.target(3), bits.inputs(3, 5, 40)
    for row, found in zip(inputs.tolist(), target(inputs).flatten().tolist(), strict=True):
        value = float(target.output[-1])
        for weights, out in zip(target.hidden.tolist(), target.output[:-1].tolist(), strict=True):
            negative = sum(weight == -1 for weight in weights)
            total = sum(weight * bit for weight, bit in zip(weights, [*row, 1.0], strict=True))
            value += out * (total > 0.7 * 21 - negative)
        assert value == found
    assert target.hidden.shape == (100, 21)
    assert set(target.hidden.flatten().tolist()) == {-1.0, 1.0}


def test_one_slow_bit_flips_and_fast_bits_are_drawn_for_each_example():
    drawn = [bits.inputs(0, number, 200) for number in range(4)]
    for before, after in pairwise(drawn):
        assert (before[0, :15] != after[0, :15]).sum() == 1
    for inputs in drawn:
        assert (inputs[:, :15] == inputs[0, :15]).all()
        assert len(inputs[:, 15:].unique(dim=0)) > 25  # of 32
    assert not torch.equal(drawn[0][:, 15:], drawn[1][:, 15:])


class Stopped(Exception):
    pass


@pytest.mark.parametrize(
    ("scenario", "column", "epochs", "method"),
    [
        ("permuted-pixels", "digits-mlp", (1, 1, 1), "continual-backprop"),
        ("random-labels", "digits-mlp", (2, 2, 2), "full-reset"),
        ("class-incremental", "digits-mlp", (1, 2, 1), "vanilla"),
        ("bit-flipping", "bits-mlp5", (1, 1, 1), "redo"),
    ],
)
def test_a_run_stopped_in_the_middle_of_a_stream_goes_on_exactly(scenario, column, epochs, method, tmp_path):
    examples = None if scenario == "class-incremental" else 96
    one = config(scenario, column=column, epochs=epochs, method=method, examples=examples)

    def stop_at(number):
        def report(row):
            if row.epoch == number:
                raise Stopped

        return report

    def rows(found):
        return [{key: str(value) for key, value in asdict(row).items() if key != "seconds"} for row in found]

    whole = run(one, tmp_path / "whole.pt")
    for number in (1, 3):  # between two tasks, or within one
        with pytest.raises(Stopped):
            run(one, tmp_path / "parts.pt", report=stop_at(number))
    assert rows(run(one, tmp_path / "parts.pt")) == rows(whole)
    assert (streams.metric(scenario) in whole[-1].measures) == (scenario != "class-incremental")


def test_the_average_is_that_of_every_batch_before_its_update():
    one = config("permuted-pixels", tasks=20, examples=64, batch_size=32)
    training = Training(one, load("digits"))
    rows = [training.epoch() for _ in range(20)]
    online = [row.train_accuracy for row in rows]
    found = rows[-1].measures
    assert math.isclose(found[streams.ACCURACY], sum(online) / 20)
    assert math.isclose(found[streams.FIRST], sum(online[:2]) / 2)
    assert math.isclose(found[streams.LAST], sum(online[-2:]) / 2)
    assert final("permuted-pixels", rows[-1]) == found[streams.ACCURACY]
    assert math.isclose(final("permuted-pixels", rows[4]), sum(online[:5]) / 5)
    assert "test_accuracy_at_start" not in rows[3].measures


def test_a_regression_has_squared_errors_and_no_accuracy():
    training = Training(config("bit-flipping", column="bits-mlp5", examples=64, batch_size=16), load("bits"))
    row = training.epoch()
    assert math.isnan(row.train_accuracy)
    assert math.isnan(row.test_accuracy)
    assert row.measures[streams.ERROR] == row.train_loss > 0


def test_identities_of_runs_from_before_there_were_streams_stay():
    one = paper.expand("generalization", columns=["mnist-mlp"])[0]
    assert one.identity == "ffc0431a99ab50b9"
    assert "examples" not in one.to_dict()
    assert RunConfig.from_dict(one.to_dict()) == one
    stream = paper.expand("permuted-pixels")[0]
    assert stream.to_dict()["examples"] == 10_000
    assert RunConfig.from_dict(stream.to_dict()) == stream


@pytest.mark.parametrize("name", streams.STREAMS)
def test_a_stream_is_an_experiment_with_a_fresh_network_beside(name: str):
    runs = paper.expand(name, seeds=1)
    assert [one.method for one in runs] == list(streams.METHODS)
    assert {one.scenario for one in runs} == {name}
    assert runs[1].title == "full reset (fresh network)"
    assert paper.protocol(name).metric == streams.metric(name)
    with pytest.raises(OptionError, match="full-reset in place of cold"):
        paper.expand(name, methods=["cold"])


def test_the_scale_is_one_of_tasks_or_of_the_epochs_of_a_task():
    assert len(paper.expand("permuted-pixels", epochs_scale=0.1)[0].epochs) == 50
    assert paper.expand("permuted-pixels", epochs_scale=1e-6)[0].epochs == (1, 1)
    assert paper.expand("random-labels", epochs_scale=0.1)[0].epochs == (40,) * 50
    assert paper.expand("five-plus-one", epochs_scale=0.1)[0].epochs == (1, 5) * 15


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cold": True}, "without a cold start"),
        ({"validation": 0.1}, "held-out"),
        ({"label_noise": 0.1}, "label noise"),
        ({"examples": 0}, "at least 1"),
        ({"scenario": "continued", "examples": 5}, "but for a stream"),
    ],
)
def test_what_a_stream_cannot_have_is_refused(change, message):
    with pytest.raises(OptionError, match=message):
        replace(config("permuted-pixels"), **change)


def test_bits_and_bit_flipping_belong_together():
    with pytest.raises(OptionError, match="belong together"):
        paper.expand("bit-flipping", columns=["mnist-mlp"])
    with pytest.raises(OptionError, match="belong together"):
        paper.expand("permuted-pixels", columns=["bits-mlp5"])
    with pytest.raises(OptionError, match="wants 500 examples a task, and there are 130 only"):
        of_tasks(config("permuted-pixels", examples=500))


def finished(values: dict[str, tuple[float, float, float]], name: str, column: str) -> list:
    """Records of runs that ended with these: the average, and that of the first and last tenth."""
    store = Store(":memory:")
    runs = paper.expand(name, columns=[column], methods=list(values), seeds=1)
    store.add(runs, Provenance({}, None, "host"))
    for one in runs:
        names = (streams.metric(name), streams.FIRST, streams.LAST)
        measures = dict(zip(names, values[one.method], strict=True))
        store.record(one.identity, [epoch(one.total, one.total, test_accuracy=math.nan, measures=measures)])
        store.finish(one.identity, {})
    return store.runs()


def test_the_table_of_a_stream_tells_what_fell_and_what_held():
    records = finished({"vanilla": (0.6, 0.7, 0.4), "full-reset": (0.65, 0.65, 0.66)}, "permuted-pixels", "digits-mlp")
    text = results.table(records)
    assert "average online accuracy" in text.splitlines()[0]
    assert "first tenth of tasks" in text
    assert "nan" not in text
    assert [line.split()[-3:] for line in text.splitlines()[-2:]] == [
        ["0.6000", "0.7000", "0.4000"],
        ["0.6500", "0.6500", "0.6600"],
    ]
    assert text.count("first tenth") == 1


def test_of_squared_errors_the_smallest_is_the_best():
    records = finished({"vanilla": (1.2, 1.0, 1.4), "swr": (0.8, 0.8, 0.8)}, "bit-flipping", "bits-mlp5")
    [table] = results.tables(records)
    assert [row.cells[0].best for row in table.rows] == [False, True]
    best, other = results.candidates(records, "test")
    assert best.test.mean < other.test.mean
