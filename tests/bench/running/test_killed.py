"""Runs that are killed at random moments end with the same results, bit for bit, and nothing is run twice."""

import dataclasses
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing, suppress

import job_tasks
import pytest
from job_tasks import quick_engine, read_log
from resuming import rows, undisturbed

from swr.bench import experiments
from swr.bench.running.jobs import execute
from swr.bench.running.progress import View
from swr.bench.store import Store

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals")


class Killer(View, threading.Thread):
    """Ends a worker's life again and again, until it has done so often enough or is told to stop.

    A view of the runs: every other time it lets an epoch end first, so that kills meet training and checkpoints too.
    """

    def __init__(self, engine, times, seed):
        super().__init__(daemon=True)
        self.engine, self.left, self.random = engine, times, random.Random(seed)
        self.kills = 0
        self.over, self.progress = threading.Event(), threading.Event()

    def epoch(self, config, epoch):
        self.progress.set()

    def run(self):
        while self.kills < self.left and not self.over.is_set():
            if self.random.random() < 0.5:
                self.progress.clear()
                self.progress.wait(5)
            time.sleep(self.random.uniform(0.0, 0.2))
            victims = self.engine.processes
            if victims:
                with suppress(ProcessLookupError):
                    os.kill(self.random.choice(victims), signal.SIGKILL)
                    self.kills += 1


def survive(tmp_path, times, epochs):
    """Run seed after seed while workers are killed, until that happened often enough; then compare with quiet runs."""
    configs, kills = [], 0
    with Store(tmp_path / "s.sqlite") as store:
        while kills < times:
            plan = experiments.expand("quickstart", seeds=[len(configs)])
            configs += [dataclasses.replace(config, epochs=epochs) for config in plan]
            engine = quick_engine(2, job_tasks.train_and_save)
            killer = Killer(engine, times - kills, seed=len(configs))
            killer.start()
            outcome = execute(configs, store, retries=10**6, engine=engine, view=killer)
            killer.over.set()
            killer.join()
            kills += killer.kills
            assert len(outcome.done) == len(configs)
        finished = {record.id: record.finished for record in store.runs()}
        for run, _, moment in read_log(tmp_path, "begin"):
            assert float(moment) < finished[run], "a finished run was begun again"
        assert not store.folder.exists(), "something was left behind"
        for config in configs:
            assert rows(store.epochs(config.identity)) == undisturbed(config, tmp_path)


@pytest.mark.usefixtures("one_thread")
def test_workers_killed_twenty_times_change_nothing(tmp_path):
    survive(tmp_path, times=20, epochs=(8, 8))


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
def test_workers_killed_two_hundred_times_change_nothing(tmp_path):
    survive(tmp_path, times=200, epochs=(40, 40))


@pytest.mark.usefixtures("one_thread")
def test_a_killed_parent_takes_its_workers_along_and_the_same_command_goes_on(tmp_path):
    path = tmp_path / "s.sqlite"
    options = ["--seeds", "1", "--epochs-scale", "0.1", "--methods", "vanilla,swr", "--store", str(path)]
    command = [sys.executable, "-m", "swr", "run", "quickstart", *options]
    parent = subprocess.Popen([*command, "--workers", "1"], stderr=subprocess.DEVNULL)
    workers = children(parent.pid)
    deadline = time.monotonic() + 180
    while epochs_in(path) < 3:
        assert parent.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
        workers |= children(parent.pid)
    parent.kill()
    parent.wait()
    assert workers
    while any(alive(pid) for pid in workers):
        assert time.monotonic() < deadline, "a worker outlived its parent"
        time.sleep(0.05)

    done = subprocess.run([*command, "--workers", "1"], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert "to be continued" in done.stderr
    configs = experiments.expand("quickstart", seeds=1, epochs_scale=0.1, methods=["vanilla", "swr"])
    with Store(path) as store:
        for config in configs:
            assert rows(store.epochs(config.identity)) == undisturbed(config, tmp_path)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_the_whole_group_stops_in_order_and_leaves_a_checkpoint(number, tmp_path):
    """As `scancel`, systemd and a closed terminal send it: to the driver and to every worker."""
    path = tmp_path / "s.sqlite"
    options = ["--seeds", "1", "--epochs-scale", "20", "--methods", "vanilla", "--store", str(path), "--workers", "1"]
    command = [sys.executable, "-m", "swr", "run", "quickstart", *options]
    driver = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    deadline = time.monotonic() + 180
    while epochs_in(path) < 3:
        assert driver.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.killpg(driver.pid, number)
    _, said = driver.communicate(timeout=120)
    assert driver.returncode == 128 + number, said
    assert "stopped: 0 of 1 run done" in said
    assert "ended by" not in said
    assert list(path.with_name("s.sqlite.runs").glob("*/checkpoint.pt")), said


ALL_KILLED = """
import os, signal, sys
import job_tasks
from swr.bench import experiments
from swr.bench.running.engines import LocalEngine
from swr.bench.running.jobs import execute
from swr.bench.running.progress import View
from swr.bench.store import Store

class Kill(View):
    left = int(sys.argv[1])

    def epoch(self, config, epoch):
        self.left -= 1
        if not self.left:
            os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    configs = experiments.expand("proportionality", columns=["digits-mlp"], seeds=1, epochs_scale=0.1)[:4]
    with Store("s.sqlite") as store:
        execute(configs, store, engine=LocalEngine(2, job_tasks.train_and_save), view=Kill())
"""


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("moment", [5, 13, 24])
def test_a_first_stage_that_runs_share_survives_a_kill_of_everything(moment, tmp_path):
    """While it is trained, 10 epochs long; in the second stage of its run; when others have taken it over."""
    (tmp_path / "script.py").write_text(ALL_KILLED)
    command = [sys.executable, "script.py", str(moment)]
    killed = subprocess.run(command, cwd=tmp_path, env=_with_tests(), capture_output=True, text=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    configs = experiments.expand("proportionality", columns=["digits-mlp"], seeds=1, epochs_scale=0.1)[:4]
    with Store(tmp_path / "s.sqlite") as store:
        assert sum(len(store.epochs(config.identity)) for config in configs) == moment
        assert len(execute(configs, store, engine=quick_engine(2, job_tasks.train_and_save)).done) == 4
        epochs = {config: store.epochs(config.identity) for config in configs}
    assert sum(epoch.seconds > 0 for found in epochs.values() for epoch in found) == 10 + 4 * 5, "it was trained twice"
    for config, found in epochs.items():
        assert rows(found) == undisturbed(config, tmp_path)
    assert not store.folder.exists(), "something was left behind"


def epochs_in(path):
    if not path.exists():
        return 0
    try:
        with closing(sqlite3.connect(path)) as db:
            return db.execute("SELECT count(*) FROM metrics").fetchone()[0]
    except sqlite3.OperationalError:  # it is being created
        return 0


def children(pid):
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True)
    return {int(word) for word in found.stdout.split()}


def alive(pid):
    found = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout.strip()
    return bool(found) and not found.startswith("Z")


KILLED = """
from job_tasks import config, killed_at_a_bar
from swr.bench.running.engines import LocalEngine
from swr.bench.running.jobs import execute
from swr.bench.store import Store

if __name__ == "__main__":
    with Store("swr.sqlite") as store:
        print(len(execute([config(0)], store, engine=LocalEngine(1, killed_at_a_bar)).done))
"""


def test_a_killed_worker_leaves_no_complaint_about_semaphores(tmp_path):
    pytest.importorskip("tqdm")
    (tmp_path / "script.py").write_text(KILLED)
    done = subprocess.run([sys.executable, "script.py"], capture_output=True, text=True, cwd=tmp_path, env=_with_tests())
    assert (done.stdout, done.stderr) == ("1\n", "")
    assert len(read_log(tmp_path, "begin")) == 2, "the worker was killed once"


def _with_tests():
    """The environment, in which a new process finds what these tests import."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
