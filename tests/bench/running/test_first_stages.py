"""First stages that several runs of an invocation have in common: trained once, wherever the runs are executed."""

import dataclasses
import shutil
import sys
from dataclasses import replace

import job_tasks
import pytest
from job_tasks import quick_engine

from swr.bench import experiments, training
from swr.bench.experiments import RunConfig
from swr.bench.running.engines import worker
from swr.bench.running.first_stages import FirstStages, file_of, followers, shared
from swr.bench.running.jobs import execute
from swr.bench.running.progress import View
from swr.bench.store import Store

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals")

PLAIN = RunConfig("proportionality", "digits-mlp", "vanilla", scenario="continued", epochs=(4, 2), batch_size=64)
NAIVE = [replace(PLAIN, method="naive-scaling", hyper=(("ratio", ratio),)) for ratio in (0.9, 0.5)]
PROPORTIONAL = replace(PLAIN, method="proportional-scaling", hyper=(("ratio", 0.5),))
GROUP = [PLAIN, *NAIVE, PROPORTIONAL]


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "s.sqlite") as found:
        yield found


class Notes(View):
    def __init__(self):
        self.notes = []

    def note(self, text):
        self.notes.append(text)


def trained(store, config):
    return [epoch.epoch for epoch in store.epochs(config.identity) if epoch.seconds > 0]


def unshared(config, folder):
    epochs = training.run(config, folder / f"{config.identity}.pt")
    return [dataclasses.replace(epoch, seconds=0.0) for epoch in epochs]


def assert_as_alone(store, configs, folder):
    for config in configs:
        found = [dataclasses.replace(epoch, seconds=0.0) for epoch in store.epochs(config.identity)]
        assert found == unshared(config, folder), config.label


def test_the_whole_experiment_trains_one_first_stage_for_each_seed():
    configs = experiments.expand("proportionality")
    assert len(configs) == 55
    assert len({shared(config) for config in configs}) == 5
    assert len(followers(configs)) == 50
    assert not followers([*experiments.expand("permuted-pixels"), *experiments.expand("continual-full")]), "too short"


@pytest.mark.parametrize("workers", [1, 2])
def test_runs_that_begin_alike_train_their_first_stage_once_and_end_as_if_each_had(workers, store, tmp_path):
    other = replace(PLAIN, method="l2", hyper=(("coefficient", 0.1),))
    configs = [*GROUP, *(replace(config, seed=1) for config in GROUP[:2]), other]
    outcome = execute(configs, store, engine=quick_engine(workers, worker.train))
    assert (len(outcome.done), outcome.failed) == (7, [])
    whole, rest = [1, 2, 3, 4, 5, 6], [5, 6]
    assert [trained(store, config) for config in configs] == [whole, rest, rest, rest, whole, rest, whole]
    assert_as_alone(store, configs, tmp_path)
    records = {record.id: record for record in store.runs()}
    for config in configs:
        record, own = records[config.identity], [epoch.seconds for epoch in store.epochs(config.identity)]
        assert record.seconds == pytest.approx(sum(own))
        assert record.facts.get("taken_over") == (4 if trained(store, config) == rest else None)
    assert not store.folder.exists(), "something was left behind"


@pytest.mark.parametrize("changes", [{"seed": 1}, {"lr": 1e-2}, {"batch_size": 32}, {"epochs": (4, 3)}, {"label_noise": 0.1}])
def test_a_run_that_begins_otherwise_shares_nothing(changes, store):
    configs = [PLAIN, replace(NAIVE[0], **changes)]
    outcome = execute(configs, store, engine=quick_engine(1, worker.train))
    assert len(outcome.done) == 2
    assert [len(trained(store, config)) for config in configs] == [config.total for config in configs]


def test_when_the_first_run_fails_the_next_one_takes_its_place(store, tmp_path):
    outcome = execute(GROUP, store, engine=quick_engine(2, job_tasks.vanilla_crashes_in_its_first_stage))
    assert [config.method for config, _ in outcome.failed] == ["vanilla"]
    assert [trained(store, config) for config in GROUP[1:]] == [[1, 2, 3, 4, 5, 6], [5, 6], [5, 6]]
    assert_as_alone(store, GROUP[1:], tmp_path)
    assert not list(store.folder.glob("first-stage-*"))


def test_what_an_interrupted_invocation_left_is_used_by_the_next_and_then_removed(store, tmp_path):
    file = file_of(store.folder, PLAIN)
    training.run(PLAIN, tmp_path / "leader.pt", first_stage=file)
    assert file.exists()
    execute([PROPORTIONAL], store, engine=quick_engine(1, job_tasks.train_and_save))
    assert trained(store, PROPORTIONAL) == [5, 6]
    assert_as_alone(store, [PROPORTIONAL], tmp_path)
    assert not store.folder.exists()


def test_what_was_left_of_finished_runs_is_removed(store):
    execute(GROUP[:1], store, engine=quick_engine(1, worker.train))
    file = file_of(store.folder, PLAIN)
    file.parent.mkdir(parents=True)
    (file.parent / f".{file.name}.1.tmp").write_bytes(b"half a file")
    execute(GROUP[:1], store)
    assert not store.folder.exists()


def test_a_damaged_first_stage_is_said_and_trained_again_once(store, tmp_path):
    file = file_of(store.folder, PLAIN)
    file.parent.mkdir(parents=True)
    file.write_bytes(b"rubbish" * 100)
    view = Notes()
    outcome = execute(NAIVE, store, view=view, engine=quick_engine(1, worker.train))
    assert len(outcome.done) == 2
    (note,) = view.notes
    assert "is damaged" in note
    assert [len(trained(store, config)) for config in NAIVE] == [6, 2]
    assert_as_alone(store, NAIVE, tmp_path)
    assert not store.folder.exists()


def test_others_wait_only_while_the_first_stage_is_being_trained(tmp_path):
    one, two, *_ = GROUP
    stages = FirstStages(tmp_path)
    stages.open([one, two, replace(two, seed=1)])
    assert stages.file(replace(two, seed=1)) is None, "it alone has this first stage"
    file = stages.file(one)
    assert file is not None
    assert file == stages.file(two)
    assert not stages.awaited(two, [], {})
    assert stages.awaited(two, [one], {one.identity: 3})
    assert not stages.awaited(two, [one], {one.identity: 4}), "it could not leave the file"
    file.parent.mkdir()
    file.touch()
    assert not stages.awaited(two, [one], {one.identity: 3})
    stages.ended(one)
    assert file.exists()
    stages.tidy([one])
    assert file.exists(), "another run needs it"
    stages.ended(two)
    assert not file.parent.exists()
    shutil.rmtree(tmp_path)
    stages.ended(one)
    stages.tidy([one, two])
