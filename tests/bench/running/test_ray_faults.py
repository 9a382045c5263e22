"""A node, a worker and the driver die in the middle: every run is done once, with the bits of an undisturbed run."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from ray_clusters import machines
from resuming import rows, undisturbed

from swr.bench import experiments
from swr.bench.store import Store

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

DEADLINE = 600


def query(path, text):
    if not path.exists():
        return 0
    try:
        with closing(sqlite3.connect(path, timeout=30)) as db:
            return db.execute(text).fetchone()[0]
    except sqlite3.OperationalError:  # it is being created
        return 0


def epochs_in(path):
    return query(path, "SELECT count(*) FROM metrics")


def wait_until(condition, driver=None):
    """What the condition returns, as soon as it is true."""
    deadline = time.monotonic() + DEADLINE
    while not (found := condition()):
        assert driver is None or driver.poll() is None, "the driver has ended"
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


def continued(log):
    """How many losses the driver has seen: it may take a while to learn of one, while the other nodes work on."""
    return sum(log.read_text().count(text) for text in ("it continues from its last checkpoint", "it starts again"))


def workers_of(node):
    """The processes that execute runs below a node's raylet; Ray gives them the name of their task, the run's label."""
    return [pid for pid in descendants(node.all_processes["raylet"][0].process.pid) if "ray::quickstart" in command(pid)]


def in_the_middle(node, path, configs):
    """Those whose run has begun and is not about to end, so that it is certainly running when something happens to it."""
    done = {f"ray::{one.label}": query(path, f"SELECT count(*) FROM metrics WHERE run = '{one.identity}'") for one in configs}
    return [pid for pid in workers_of(node) if 0 < done.get(command(pid).strip(), 0) < configs[0].total / 2]


def descendants(pid):
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True).stdout.split()
    return [one for child in map(int, found) for one in (child, *descendants(child))]


def command(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


@pytest.mark.usefixtures("one_thread")
def test_eight_runs_survive_the_loss_of_a_node_a_worker_and_the_driver(tmp_path):
    path = tmp_path / "s.sqlite"
    options = ["--seeds", "8", "--methods", "vanilla", "--epochs-scale", "1.5", "--store", str(path)]
    configs = experiments.expand("quickstart", seeds=8, methods=["vanilla"], epochs_scale=1.5)
    total = sum(config.total for config in configs)
    with machines(tmp_path / "cluster") as cluster:
        for name in ("second", "third"):
            cluster.add(name)
        line = [sys.executable, "-m", "swr", "run", "quickstart", *options, "--engine", "ray", "--address", cluster.address]
        log = tmp_path / "errors"
        with log.open("w") as errors:
            driver = subprocess.Popen(line, stdout=errors, stderr=errors)
        try:
            wait_until(lambda: in_the_middle(cluster.nodes["third"], path, configs), driver)
            cluster.remove("third")
            wait_until(lambda: continued(log) >= 1, driver)
            victim, *_ = wait_until(lambda: in_the_middle(cluster.nodes["second"], path, configs), driver)
            seen, said = epochs_in(path), continued(log)
            os.kill(victim, signal.SIGKILL)
            wait_until(lambda: continued(log) > said and epochs_in(path) > seen + 10, driver)
        finally:
            driver.kill()
            driver.wait()
        assert epochs_in(path) < total, "everything was done before the driver was killed"
        nodes = [cluster.nodes["head"], cluster.nodes["second"]]
        wait_until(lambda: not any(workers_of(node) for node in nodes))  # nothing keeps running on the cluster
        again = subprocess.run(line, capture_output=True, text=True, timeout=DEADLINE)
        assert again.returncode == 0, again.stderr
    assert "to be continued" in again.stderr
    with Store(path) as store:
        assert {record.status for record in store.runs()} == {"done"}
        assert len(store.runs()) == 8
        for config in configs:
            assert rows(store.epochs(config.identity)) == undisturbed(config, tmp_path)
        assert not store.folder.exists(), "something was left behind"
