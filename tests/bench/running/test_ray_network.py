"""Two hosts, as network namespaces joined by one link, without a shared disk; the link is cut for a minute in the middle."""

import os
import secrets
import shutil
import subprocess
import sys
import time
from contextlib import ExitStack, closing, contextmanager
from sqlite3 import OperationalError, connect

import pytest
from resuming import rows, undisturbed

from swr.bench import experiments
from swr.bench.store import Store

pytest.importorskip("ray", reason="Ray is not installed: pip install 'soft-weight-rescaling[ray]'")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        sys.platform != "linux" or os.getuid() != 0 or shutil.which("ip") is None, reason="needs root and iproute2 on Linux"
    ),
]

HEAD, OTHER = "10.213.77.1", "10.213.77.2"
PORT = 26379
CUT = 60
DEADLINE = 900


def ip(*words):
    subprocess.run(["ip", *words], check=True)


@contextmanager
def linked():
    """The names of two network namespaces that are joined by one link."""
    names = [f"swr{os.getpid()}{end}" for end in "ab"]
    with ExitStack() as stack:
        for name in names:
            ip("netns", "add", name)
            stack.callback(ip, "netns", "del", name)
        ip("link", "add", names[0], "netns", names[0], "type", "veth", "peer", "name", names[1], "netns", names[1])
        for name, address in zip(names, (HEAD, OTHER), strict=True):
            ip("-n", name, "addr", "add", f"{address}/24", "dev", name)
            ip("-n", name, "link", "set", name, "up")
            ip("-n", name, "link", "set", "lo", "up")
        yield names


@contextmanager
def host(name, folder, *words):
    """A node of Ray in a namespace, with a cache folder of its own; ended with all its processes."""
    (folder / "cache").mkdir(parents=True)
    variables = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "SWR_CACHE": str(folder / "cache"),
        "SWR_DATA": str(folder / "data"),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_worker_niceness": "0",
        "RAY_AUTH_MODE": "token",  # by a token of the test's own, whatever the user's Ray is set to
        "RAY_AUTH_TOKEN_PATH": str(folder.parent / "token"),
    }
    start = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--num-cpus=1", "--num-gpus=0"]
    line = ["ip", "netns", "exec", name, *start, f"--object-store-memory={80 * 2**20}", *words]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(line, stdout=log, stderr=log, cwd=folder, env=variables)
    try:
        yield variables
    finally:
        process.terminate()
        process.wait(60)


def wait_until(condition, process):
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert process.poll() is None, "the driver has ended"
        assert time.monotonic() < deadline
        time.sleep(0.2)


def hosts_with_epochs(path):
    if not path.exists():
        return 0
    try:
        with closing(connect(path, timeout=30)) as db:
            return db.execute("SELECT count(DISTINCT run) FROM metrics").fetchone()[0]
    except OperationalError:  # it is being created
        return 0


def test_a_link_that_is_cut_for_a_minute_changes_nothing(tmp_path):
    path = tmp_path / "s.sqlite"
    (tmp_path / "token").write_text(secrets.token_hex(32))
    configs = experiments.expand("quickstart", seeds=4, methods=["vanilla"])
    with linked() as (head, other), ExitStack() as stack:
        variables = stack.enter_context(
            host(head, tmp_path / "head", "--head", f"--node-ip-address={HEAD}", f"--port={PORT}", "--include-dashboard=False")
        )
        time.sleep(10)
        stack.enter_context(host(other, tmp_path / "other", f"--address={HEAD}:{PORT}", f"--node-ip-address={OTHER}"))
        time.sleep(20)
        swr = [sys.executable, "-m", "swr", "run", "quickstart", "--seeds", "4", "--methods", "vanilla", "--store", str(path)]
        line = ["ip", "netns", "exec", head, *swr, "--engine", "ray", "--address", f"{HEAD}:{PORT}"]
        with (tmp_path / "log").open("w") as log:
            driver = subprocess.Popen(line, stdout=log, stderr=log, env=variables, cwd=tmp_path)
        try:
            wait_until(lambda: hosts_with_epochs(path) >= 2, driver)
            ip("-n", other, "link", "set", other, "down")
            time.sleep(CUT)
            ip("-n", other, "link", "set", other, "up")
            assert driver.wait(DEADLINE) == 0, (tmp_path / "log").read_text()
        finally:
            driver.kill()
            driver.wait()
    assert "it continues from its last checkpoint" in (tmp_path / "log").read_text()
    with Store(path) as store:
        for config in configs:
            assert rows(store.epochs(config.identity)) == undisturbed(config, tmp_path)
        assert {record.status for record in store.runs()} == {"done"}
