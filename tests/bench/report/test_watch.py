import http.client
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from threading import Thread

import pytest

from swr.bench.experiments import RunConfig
from swr.bench.report import watch
from swr.bench.store import Provenance, Store

HERE = Provenance({}, None, "host")


@pytest.fixture
def watcher(tmp_path):
    found = watch.Watcher(tmp_path / "swr.sqlite", tmp_path / "report.html")
    yield found
    found.close()


@pytest.fixture
def server(watcher):
    watcher.update()
    with watch.Server((watch.HOST, 0), watch.Handler) as found:
        found.watcher = watcher
        thread = Thread(target=found.serve_forever)
        thread.start()
        yield found
        found.shutdown()
        thread.join()


def add(path, seed=0):
    with Store(path) as store:
        store.add([RunConfig("generalization", "digits-mlp", "vanilla", seed=seed)], HERE)


def get(server, path="/", host=None):
    with closing(http.client.HTTPConnection(watch.HOST, server.server_port, timeout=10)) as connection:
        connection.request("GET", path, headers={"Host": host} if host else {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def test_a_store_that_does_not_exist_yet_is_waited_for(watcher):
    assert watcher.update()
    version, text = watcher.current
    assert "there is no store at" in text
    assert not watcher.page.exists()
    assert not watcher.update()
    add(watcher.path)
    assert watcher.update()
    assert watcher.current[0] != version
    assert "there is no store at" not in watcher.current[1]
    assert "vanilla" in watcher.page.read_text()


def test_the_page_is_made_anew_only_when_the_store_changed(watcher):
    add(watcher.path)
    assert watcher.update()
    assert [watcher.update() for _ in range(3)] == [False] * 3
    add(watcher.path, seed=1)
    assert watcher.update()
    assert not watcher.update()
    assert "2 of 2 runs" in watcher.current[1]


def test_another_file_in_its_place_is_noticed(watcher, tmp_path):
    add(watcher.path)
    watcher.update()
    for seed in range(3):
        add(tmp_path / "other.sqlite", seed)
    for name in ("swr.sqlite-wal", "swr.sqlite-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    (tmp_path / "other.sqlite").replace(watcher.path)
    assert watcher.update()
    assert "3 of 3 runs" in watcher.current[1]


def test_a_locked_store_is_said_and_the_former_results_stay(watcher, monkeypatch):
    add(watcher.path)
    watcher.update()
    add(watcher.path, seed=1)
    watcher.close()
    with closing(sqlite3.connect(watcher.path, isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        assert watcher.update()
        assert "is locked by another process" in watcher.current[1]
        assert "1 of 1 runs" in watcher.current[1]
        other.execute("ROLLBACK")
    assert watcher.update()
    assert "is locked" not in watcher.current[1]
    assert "2 of 2 runs" in watcher.current[1]


def test_the_server_gives_the_page_and_its_version(server):
    version, text = server.watcher.current
    assert get(server) == (200, text)
    assert get(server, "/version") == (200, version)
    assert f'data-version="{version}"' in text
    assert "connect-src &#39;self&#39;;" in text
    assert get(server, "/swr.sqlite")[0] == 404


@pytest.mark.parametrize("host", ["example.org", "example.org:80", "127.0.0.1", "127.0.0.1.example.org:{port}"])
def test_another_name_for_this_machine_is_refused(server, host):
    assert get(server, host=host.format(port=server.server_port))[0] == 403
    assert get(server, host=f"localhost:{server.server_port}")[0] == 200


def test_only_this_machine_can_reach_it(server):
    assert server.server_address[0] == "127.0.0.1"


CODE = "from pathlib import Path; from swr.bench.report.watch import serve; serve(Path('swr.sqlite'), Path('report.html'))"


def started(folder):
    add(folder / "swr.sqlite")
    return subprocess.Popen(
        [sys.executable, "-u", "-c", CODE], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_ends_it_cleanly(tmp_path):
    process = started(tmp_path)
    try:
        line = process.stdout.readline()
        assert "http://127.0.0.1:" in line
        assert "(Ctrl-C ends it)" in line
        assert (tmp_path / "report.html").exists()
        os.kill(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, errors) == (0, "")


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.usefixtures("in_the_background")
def test_in_the_background_ctrl_c_is_for_others_and_it_says_what_ends_it(tmp_path):
    process = started(tmp_path)
    try:
        assert f"(kill {process.pid} ends it)" in process.stdout.readline()
        os.kill(process.pid, signal.SIGINT)
        os.kill(process.pid, signal.SIGTERM)
        process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == -signal.SIGTERM
