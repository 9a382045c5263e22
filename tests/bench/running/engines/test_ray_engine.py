"""Runs on a real Ray cluster: three raylets on this machine, each with a cache folder of its own."""

import dataclasses
import os
import re
import signal
import sys
import time
from pathlib import Path

import job_tasks
import pytest
from job_tasks import config
from ray_clusters import machines
from resuming import rows, undisturbed

from swr.bench import training
from swr.bench.experiments import RunConfig
from swr.bench.running.engines import EngineError, claim, ray_engine
from swr.bench.running.engines.ray_engine import RayEngine
from swr.bench.running.jobs import execute
from swr.bench.running.progress import View
from swr.bench.store import Store
from swr.errors import OptionError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with machines(tmp_path_factory.mktemp("cluster")) as found:
        found.add("second")
        yield found


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "s.sqlite") as found:
        yield found


@pytest.fixture
def engine(cluster):
    """Makes an engine that joins the cluster."""
    made = []

    def make(task=None, **options):
        made.append(RayEngine(cluster.address, task=task, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


class Watch(View):
    """Remembers what happened, and calls a function at every epoch."""

    def __init__(self, at_epoch=lambda config, epoch: None):
        self.nodes, self.notes, self.at_epoch = [], [], at_epoch

    def placed(self, config, node):
        self.nodes.append((config.seed, node))

    def epoch(self, config, epoch):
        self.at_epoch(config, epoch)

    def note(self, text):
        self.notes.append(text)


def test_results_are_those_of_the_loop_bit_for_bit_and_nothing_is_done_twice(engine, store, tmp_path):
    swr = config(0, "swr", epochs=3, hyper=(("coefficient", 0.01),))
    configs = [swr, *(config(seed, epochs=3) for seed in (0, 1, 2))]
    written, watch = [], Watch()
    real = store.record
    store.record = lambda run, epochs: (written.extend((run, epoch.epoch) for epoch in epochs), real(run, epochs))
    first = engine()
    assert first.capacity == first.free == 2
    outcome = execute(configs, store, engine=first, view=watch)
    assert (len(outcome.done), outcome.failed) == (4, [])
    for one in configs:
        assert rows(store.epochs(one.identity)) == undisturbed(one, tmp_path)
    assert sorted(written) == sorted((one.identity, number) for one in configs for number in (1, 2, 3))
    assert sorted(seed for seed, _ in watch.nodes) == [0, 0, 1, 2]
    assert not store.folder.exists(), "something was left behind"
    facts = store.runs()[0].facts
    assert (facts["dataset"], facts["test"]) == ("digits", len(training.Training(configs[0], data("digits")).test))
    again = Watch()
    assert len(execute(configs, store, engine=engine(), view=again).done) == 4
    assert again.nodes == [], "what was done is done again"


@pytest.mark.parametrize("on_a_shared_disk", [False, True])
def test_a_first_stage_that_runs_share_is_trained_once_and_travels(engine, store, tmp_path, on_a_shared_disk):
    plain = RunConfig("proportionality", "digits-mlp", "vanilla", scenario="continued", epochs=(6, 2), batch_size=64)
    scaled = [(method, ratio) for method in ("naive-scaling", "proportional-scaling") for ratio in (0.9, 0.5)]
    configs = [plain, *(dataclasses.replace(plain, method=name, hyper=(("ratio", ratio),)) for name, ratio in scaled)]
    shared = tmp_path / "shared"
    outcome = execute(configs, store, engine=engine(checkpoints=shared if on_a_shared_disk else None))
    assert (len(outcome.done), outcome.failed) == (5, [])
    for one in configs:
        epochs = store.epochs(one.identity)
        assert [epoch.epoch for epoch in epochs if epoch.seconds] == ([*range(1, 9)] if one == plain else [7, 8])
        assert rows(epochs) == undisturbed(one, tmp_path)
    assert [record.facts.get("taken_over") for record in store.runs()].count(6) == 4
    assert not store.folder.exists(), "something was left behind"
    assert not shared.exists() or not list(shared.iterdir())


def data(name):
    from swr.bench.data import load

    return load(name)


def test_a_run_that_raises_is_recorded_with_its_traceback_and_not_retried(engine, store):
    watch = Watch()
    outcome = execute([config(0), config(1)], store, engine=engine(job_tasks.crash_on_odd_seeds), view=watch)
    assert [one.seed for one in outcome.done] == [0]
    assert [(one.seed, why) for one, why in outcome.failed] == [(1, "ZeroDivisionError: the loss fell over")]
    (failed,) = (record for record in store.runs() if record.status == "failed")
    assert "Traceback" in failed.error
    assert "crash_on_odd_seeds" in failed.error
    assert sorted(seed for seed, _ in watch.nodes) == [0, 1]


def test_a_killed_worker_is_replaced_and_the_run_goes_on_from_its_checkpoint(engine, store, tmp_path, cluster):
    one, engine = config(0, epochs=60), engine(job_tasks.train_and_save)
    where = []

    def kill(_, epoch):
        if epoch.epoch == 5 and len(where) < 1:
            where.append(next(iter(engine._runs.values())).node)
            os.kill(engine.processes[0], signal.SIGKILL)
        elif epoch.epoch == 60:
            where.append(next(iter(engine._runs.values())).node)

    watch = Watch(kill)
    reported = []
    read = engine._read
    engine._read = lambda run: (reported.append(event) or event for event in read(run))
    outcome = execute([one], store, engine=engine, view=watch)
    assert (len(outcome.done), outcome.failed) == (1, [])
    assert len(watch.nodes) == 2
    assert any("it continues from its last checkpoint" in note for note in watch.notes)
    assert where[0] != where[1], "it was retried on the same node"
    assert rows(store.epochs(one.identity)) == undisturbed(one, tmp_path)
    epochs = [event.epoch for event in reported if hasattr(event, "epoch")]
    trained = {(epoch.epoch, epoch.seconds) for epoch in epochs}
    assert len(trained) < 2 * 60 - 1, "it began again at its first epoch"


def test_a_run_that_is_always_killed_fails_after_four_attempts(engine, store):
    watch = Watch()
    outcome = execute([config(1)], store, engine=engine(job_tasks.kill_itself), view=watch)
    ((_, reason),) = outcome.failed
    assert reason.startswith("the process on ")
    assert "it did not get past epoch 1 in 4 attempts" in reason
    assert len(watch.nodes) == 4


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_stops_at_the_end_of_the_epoch_nothing_keeps_running_and_it_goes_on_later(engine, store, tmp_path):
    configs = [config(seed, epochs=150) for seed in range(3)]
    first, pids = engine(job_tasks.train_and_save), set()

    def press(_, epoch):
        pids.update(first.processes)
        if epoch.epoch == 3 and len(pids) == 2:
            os.kill(os.getpid(), signal.SIGINT)

    outcome = execute(configs, store, engine=first, view=Watch(press))
    assert outcome.signal == signal.SIGINT
    assert len(outcome.left) == 3
    began = [record for record in store.runs() if record.last]
    assert len(began) == 2
    for record in began:
        assert record.status == "pending"
        assert 1 <= record.last.epoch < 150
        assert (store.folder / record.id / "checkpoint.pt").exists()
        assert not claim.held(store.folder / record.id)
    deadline = time.monotonic() + 60
    while any(alive(pid) for pid in pids):
        assert time.monotonic() < deadline, "a worker keeps running"
        time.sleep(0.1)
    outcome = execute(configs[:1], store, engine=engine(job_tasks.train_and_save))
    assert len(outcome.done) == 1
    assert rows(store.epochs(configs[0].identity)) == undisturbed(configs[0], tmp_path)


def alive(pid):
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def test_checkpoints_go_to_the_shared_folder_and_are_removed_at_the_end(engine, store, tmp_path):
    shared, seen = tmp_path / "shared", []
    one = config(0, epochs=20)
    at = Watch(lambda *_: seen.append((shared / one.identity / "checkpoint.pt").exists()))
    outcome = execute([one], store, engine=engine(job_tasks.train_and_save, checkpoints=shared), view=at)
    assert len(outcome.done) == 1
    assert any(seen)
    assert not (shared / one.identity).exists()


def test_a_run_that_another_process_has_is_not_started(engine, store):
    from swr.bench.running.engines import Busy, Job

    one = config(0)
    other = claim.take(store.folder / one.identity)
    ours = engine(job_tasks.pretend)
    ours.submit(Job(one, store.folder / one.identity))
    assert ours.poll(0.1) == [Busy(one.identity)]
    other.release()


def test_versions_that_differ_are_one_sentence_before_the_first_run(cluster, monkeypatch):
    real = ray_engine.versions()
    monkeypatch.setattr(ray_engine, "versions", lambda: {**real, "torch": "1.0"})
    with pytest.raises(EngineError, match=rf"has torch {re.escape(real['torch'])}, the driver 1\.0: install the same versions"):
        RayEngine(cluster.address)


def test_a_run_that_fits_on_no_node_and_an_address_without_ray_are_one_sentence(cluster):
    with pytest.raises(EngineError, match="no node of the cluster has 3 CPUs: ask for less"):
        RayEngine(cluster.address, cpus=3)
    with pytest.raises(EngineError, match="run swr on a machine of the cluster"):
        RayEngine("ray://127.0.0.1:10001")
    with pytest.raises(OptionError, match="--cpus-per-run must be above 0, found 0"):
        RayEngine(cluster.address, cpus=0)


def test_the_number_of_runs_at_once_follows_the_request(engine):
    assert engine(cpus=0.5, workers=3).capacity == 3


def test_a_lost_node_takes_no_run_with_it(engine, store, tmp_path, cluster):
    third = cluster.add("third")
    ours = engine(job_tasks.train_and_save)
    configs = [config(seed, epochs=60) for seed in range(3)]
    removed = []

    def lose(_, epoch):
        if not removed and any(run.node == third for run in ours._runs.values()):
            removed.append(epoch)
            cluster.remove("third")

    watch = Watch(lose)
    outcome = execute(configs, store, engine=ours, view=watch)
    assert (len(outcome.done), outcome.failed) == (3, [])
    assert len(removed) == 1
    assert len(watch.nodes) >= 4
    for one in configs:
        assert rows(store.epochs(one.identity)) == undisturbed(one, tmp_path)
