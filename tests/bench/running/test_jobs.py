import os
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import job_tasks
import pytest
from job_tasks import config, quick_engine, read_log

from swr.bench.running.engines import claim
from swr.bench.running.jobs import execute, last_line
from swr.bench.store import Store

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals")


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "s.sqlite") as found:
        yield found


def begun(store):
    return [run for run, *_ in read_log(store.path.parent, "begin")]


def test_every_run_is_done_once_and_its_epochs_are_stored(store):
    configs = [config(seed) for seed in range(5)]
    outcome = execute([*configs, configs[0]], store, engine=quick_engine(2, job_tasks.pretend))
    assert sorted(c.seed for c in outcome.done) == [0, 1, 2, 3, 4]
    assert sorted(begun(store)) == sorted(c.identity for c in configs)
    for record in store.runs():
        assert (record.status, record.facts, len(store.epochs(record.id))) == ("done", {"examples": 7}, 4)
        assert record.started <= record.finished
    assert not store.folder.exists()


def test_what_is_done_is_never_done_again(store):
    execute([config(0)], store, engine=quick_engine(1, job_tasks.pretend))
    outcome = execute([config(0), config(1)], store, engine=quick_engine(1, job_tasks.pretend))
    assert len(outcome.done) == 2
    assert begun(store) == [config(0).identity, config(1).identity]


def test_a_crashed_run_is_recorded_and_the_others_go_on(store):
    outcome = execute([config(seed) for seed in range(4)], store, engine=quick_engine(2, job_tasks.crash_on_odd_seeds))
    assert sorted(c.seed for c in outcome.done) == [0, 2]
    assert sorted((c.seed, why) for c, why in outcome.failed) == [
        (1, "ZeroDivisionError: the loss fell over"),
        (3, "ZeroDivisionError: the loss fell over"),
    ]
    failed = [record for record in store.runs() if record.status == "failed"]
    assert all("Traceback" in r.error and "crash_on_odd_seeds" in r.error for r in failed)


def test_a_failed_run_is_tried_again_the_next_time(store):
    execute([config(1)], store, engine=quick_engine(1, job_tasks.crash_on_odd_seeds))
    outcome = execute([config(1)], store, engine=quick_engine(1, job_tasks.pretend))
    (record,) = store.runs()
    assert (len(outcome.done), record.status, record.error) == (1, "done", None)


def test_a_run_that_is_always_killed_fails_after_some_attempts(store):
    outcome = execute([config(0), config(1)], store, retries=2, engine=quick_engine(1, job_tasks.kill_itself))
    assert [c.seed for c in outcome.done] == [0]
    ((failed, reason),) = outcome.failed
    assert failed.seed == 1
    assert reason.startswith("the process was ended by SIGKILL, perhaps for lack of memory; it did not get past epoch 1 in 3")
    assert begun(store).count(config(1).identity) == 3


def test_two_invocations_share_the_work(tmp_path):
    configs = [config(seed) for seed in range(6)]

    def invocation():
        with Store(tmp_path / "s.sqlite") as store:
            return execute(configs, store, engine=quick_engine(1, job_tasks.slowly))

    with ThreadPoolExecutor() as pool:
        both = [pool.submit(invocation) for _ in range(2)]
        outcomes = [one.result(timeout=120) for one in both]
    assert [(len(outcome.done), len(outcome.failed)) for outcome in outcomes] == [(6, 0), (6, 0)]
    runs = read_log(tmp_path, "begin")
    assert sorted(run for run, *_ in runs) == sorted(c.identity for c in configs)
    assert len({pid for _, pid, _ in runs}) == 2


def test_a_run_that_another_process_has_is_waited_for_and_taken_over(store):
    other = claim.take(store.folder / config(0).identity)
    threading.Timer(1.0, other.release).start()
    began = time.monotonic()
    outcome = execute([config(0)], store, engine=quick_engine(1, job_tasks.pretend))
    assert len(outcome.done) == 1
    assert time.monotonic() - began >= 1.0


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_stops_at_the_end_of_the_epoch_and_the_run_goes_on_later(store):
    running = quick_engine(1, job_tasks.train_and_save)
    configs = [config(seed, epochs=400) for seed in range(2)]

    class PressOnce:
        seen = 0

        def __getattr__(self, name):
            return lambda *args, **kwargs: self.count() if name == "epoch" else None

        def count(self):
            self.seen += 1
            if self.seen == 3:
                os.kill(os.getpid(), signal.SIGINT)

    outcome = execute(configs, store, view=PressOnce(), engine=running)
    assert outcome.signal == signal.SIGINT
    assert sorted(c.seed for c in outcome.left) == [0, 1]
    first = next(record for record in store.runs() if record.last)
    assert first.status == "pending"
    assert (store.folder / first.id / "checkpoint.pt").exists()
    assert 3 <= first.last.epoch < 400


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.usefixtures("in_the_background")
def test_in_the_background_runs_go_on_when_the_terminal_ends_and_stop_when_asked_to(store):
    running = quick_engine(1, job_tasks.train_and_save)

    class Hangup:
        seen = 0

        def __getattr__(self, name):
            return lambda *args, **kwargs: self.count() if name == "epoch" else None

        def count(self):
            self.seen += 1
            for number in {3: [signal.SIGHUP, signal.SIGINT], 6: [signal.SIGTERM]}.get(self.seen, []):
                os.kill(os.getpid(), number)

    view = Hangup()
    outcome = execute([config(0, epochs=400)], store, view=view, engine=running)
    assert outcome.signal == signal.SIGTERM
    assert view.seen >= 6
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_an_error_is_told_by_its_last_line():
    assert last_line("Traceback …\n  File …\nswr.errors.StateError: no: really\n") == "StateError: no: really"
    assert last_line("the process was ended by SIGKILL: twice") == "the process was ended by SIGKILL: twice"
    assert last_line("") == "an unknown error"


def test_a_full_disk_fails_one_run_which_goes_on_when_there_is_room(store):
    configs = [config(seed, epochs=5) for seed in (1, 2)]
    outcome = execute(configs, store, engine=quick_engine(1, job_tasks.train_on_a_full_disk))
    assert [c.seed for c in outcome.done] == [2]
    ((_, reason),) = outcome.failed
    assert "CheckpointError: the checkpoint" in reason
    assert "No space left on device" in reason
    assert "the previous one is kept" in reason
    assert (store.folder / configs[0].identity / "checkpoint.pt").exists()
    before = store.epochs(configs[0].identity)
    outcome = execute(configs, store, engine=quick_engine(1, job_tasks.train_and_save))
    assert len(outcome.done) == 2
    assert len(store.epochs(configs[0].identity)) == 5
    assert store.epochs(configs[0].identity)[0] == before[0], "the first epoch was trained again"


def test_a_corrupt_checkpoint_is_set_aside_and_said(store):
    run = store.folder / config(0).identity
    run.mkdir(parents=True)
    (run / "checkpoint.pt").write_bytes(b"rubbish" * 100)
    notes = []

    class Notes:
        def __getattr__(self, name):
            return lambda *args, **kwargs: notes.append(args[0]) if name == "note" else None

    outcome = execute([config(0)], store, view=Notes(), engine=quick_engine(1, job_tasks.train_and_save))
    assert len(outcome.done) == 1
    (note,) = notes
    assert "is damaged" in note


def test_nothing_is_started_when_nothing_is_to_do(store, monkeypatch):
    execute([config(0)], store, engine=quick_engine(1, job_tasks.pretend))
    monkeypatch.setattr("swr.bench.running.jobs.LocalEngine", None)
    assert len(execute([config(0)], store).done) == 1
