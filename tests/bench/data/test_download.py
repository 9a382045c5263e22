import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
from data_server import Server
from data_writers import md5

from swr.bench.data import SOURCES, Archive, DataError
from swr.bench.data.download import fetch

DATA = np.random.default_rng(0).bytes(300_000)
ARCHIVE = Archive("sub/file.bin", len(DATA), md5(DATA), ())
SOURCE = SOURCES["cifar10"]


def get(tmp_path, server, archive=ARCHIVE):
    return fetch(SOURCE, archive, tmp_path, base=server.base, pause=0.0)


def left(tmp_path):
    """What stands in the folder besides lock files."""
    return sorted(path.name for path in (tmp_path / "sub").iterdir() if path.suffix != ".lock")


def test_a_file_is_downloaded_once(tmp_path):
    with Server({"file.bin": DATA}) as server:
        for _ in range(2):
            assert get(tmp_path, server) == tmp_path / "sub" / "file.bin"
        assert server.requests == [("file.bin", None)]
    assert (tmp_path / "sub" / "file.bin").read_bytes() == DATA
    assert left(tmp_path) == ["file.bin"]


def test_a_dropped_connection_is_taken_up_where_it_broke(tmp_path):
    with Server({"file.bin": DATA}, drops=[100_000, 150_000]) as server:
        get(tmp_path, server)
    starts = [int((asked or "bytes=0-")[6:-1]) for _, asked in server.requests]
    assert starts[0] == 0
    assert 0 < starts[1] <= 100_000
    assert starts[1] < starts[2] <= 250_000
    assert (tmp_path / "sub" / "file.bin").read_bytes() == DATA
    assert left(tmp_path) == ["file.bin"]


def test_a_dropped_connection_without_length_is_seen_and_taken_up(tmp_path):
    with Server({"file.bin": DATA}, drops=[100_000], chunked=True) as server:
        get(tmp_path, server)
    assert [asked for _, asked in server.requests] == [None, "bytes=100000-"]
    assert (tmp_path / "sub" / "file.bin").read_bytes() == DATA


def test_an_interrupted_download_goes_on_in_the_next_call(tmp_path):
    with (
        Server({"file.bin": DATA}, drops=[200_000, 0, 0, 0]) as server,
        pytest.raises(DataError, match=r"broken off after \d+ of 300000 bytes"),
    ):
        get(tmp_path, server)
    assert left(tmp_path) == [".file.bin.part"]
    have = (tmp_path / "sub" / ".file.bin.part").stat().st_size
    assert 0 < have <= 200_000
    with Server({"file.bin": DATA}) as server:
        get(tmp_path, server)
    assert server.requests == [("file.bin", f"bytes={have}-")]
    assert (tmp_path / "sub" / "file.bin").read_bytes() == DATA
    assert left(tmp_path) == ["file.bin"]


def test_a_server_that_ignores_range_sends_everything_again(tmp_path):
    with Server({"file.bin": DATA}, drops=[100_000], ranges=False) as server:
        get(tmp_path, server)
    assert len(server.requests) == 2
    assert server.requests[1][1] is not None
    assert (tmp_path / "sub" / "file.bin").read_bytes() == DATA


def test_a_server_that_ignores_range_and_always_drops_is_given_up(tmp_path):
    with (
        Server({"file.bin": DATA}, drops=[100_000] * 9, ranges=False) as server,
        pytest.raises(DataError, match="broken off after"),
    ):
        get(tmp_path, server)
    assert len(server.requests) == 4  # one that brought something, three that brought nothing new


def test_a_wrong_hash_is_refused_and_nothing_is_left(tmp_path):
    wrong = DATA[:-1] + bytes([DATA[-1] ^ 1])
    with (
        Server({"file.bin": wrong}) as server,
        pytest.raises(DataError, match=r"what came is not the published file, whose hash is md5:") as caught,
    ):
        get(tmp_path, server)
    assert f"{server.base}file.bin" in str(caught.value)
    assert len(server.requests) == 1
    assert left(tmp_path) == []


def test_a_wrong_hash_over_a_bad_connection_is_given_up_too(tmp_path):
    wrong = DATA[:-1] + bytes([DATA[-1] ^ 1])
    with (
        Server({"file.bin": wrong}, drops=[150_000, 400_000] * 9) as server,
        pytest.raises(DataError, match="what came is not the published file"),
    ):
        get(tmp_path, server)
    assert len(server.requests) == 4
    assert left(tmp_path) == []


@pytest.mark.parametrize("length", [1000, 300_000, 400_000])
def test_a_spoilt_remainder_is_dropped_and_the_file_fetched_afresh(tmp_path, length):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / ".file.bin.part").write_bytes(b"x" * length)
    with Server({"file.bin": DATA}) as server:
        get(tmp_path, server)
    assert server.requests[-1] == ("file.bin", None)
    assert (tmp_path / "sub" / "file.bin").read_bytes() == DATA


@pytest.mark.parametrize("served", [DATA + b"x", DATA[:1000], b"<html>log in first</html>"])
def test_a_file_of_another_size_is_not_even_fetched(tmp_path, served):
    with (
        Server({"file.bin": served}) as server,
        pytest.raises(DataError, match=f"the server has {len(served)} bytes of it, 300000 were published"),
    ):
        get(tmp_path, server)
    assert left(tmp_path) == []


def test_a_stream_without_end_is_cut_off(tmp_path):
    with (
        Server({"file.bin": DATA * 20}, chunked=True) as server,
        pytest.raises(DataError, match="the server sends more than the 300000 bytes that were published"),
    ):
        get(tmp_path, server)
    assert left(tmp_path) == []


@pytest.mark.parametrize("options", [{"shift": 5}, {"files": {"file.bin": DATA[:500]}}])
def test_a_server_that_answers_with_another_range_is_asked_for_everything(tmp_path, options):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / ".file.bin.part").write_bytes(DATA[:1000])
    with Server(**({"files": {"file.bin": DATA}} | options)) as server:
        if "shift" in options:
            get(tmp_path, server)
        else:
            with pytest.raises(DataError, match="the server has 500 bytes of it, 300000 were published"):
                get(tmp_path, server)
    assert [asked for _, asked in server.requests] == ["bytes=1000-", None]


@pytest.mark.parametrize("code", [403, 404, 500])
def test_a_refusal_is_reported_with_its_number(tmp_path, code):
    with Server({}, status=code) as server, pytest.raises(DataError, match=f"the server answered {code}"):
        get(tmp_path, server)
    assert len(server.requests) == 1


def test_the_second_address_is_tried_when_the_first_fails(tmp_path):
    with Server({}) as empty, Server({"file.bin": DATA}) as server:
        fetch(replace(SOURCE, bases=(empty.base, server.base)), ARCHIVE, tmp_path)
    assert empty.requests == server.requests == [("file.bin", None)]
    assert (tmp_path / "sub" / "file.bin").read_bytes() == DATA


def test_an_existing_file_is_never_overwritten(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "file.bin").write_bytes(b"mine")
    with Server({"file.bin": DATA}) as server, pytest.raises(DataError, match=r"file\.bin is not the published archive"):
        get(tmp_path, server)
    assert (tmp_path / "sub" / "file.bin").read_bytes() == b"mine"
    assert server.requests == []


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "sub").write_text("in the way")
    with Server({"file.bin": DATA}) as server, pytest.raises(DataError, match=r"file\.bin cannot be written"):
        get(tmp_path, server)


WORKER = """
import sys
from pathlib import Path
from swr.bench.data import SOURCES, Archive
from swr.bench.data.download import fetch

folder, base, digest = sys.argv[1:]
fetch(SOURCES["cifar10"], Archive("sub/file.bin", 300_000, digest, ()), Path(folder), base=base)
"""


def worker(tmp_path, server):
    return subprocess.Popen([sys.executable, "-W", "error", "-c", WORKER, str(tmp_path), server.base, ARCHIVE.digest])


def test_two_processes_download_a_file_once(tmp_path):
    with Server({"file.bin": DATA}, slow=0.05) as server:
        workers = [worker(tmp_path, server) for _ in range(2)]
        assert [process.wait(60) for process in workers] == [0, 0]
        assert server.requests == [("file.bin", None)]
    assert (tmp_path / "sub" / "file.bin").read_bytes() == DATA


def test_a_killed_download_goes_on_where_it_was(tmp_path):
    part = tmp_path / "sub" / ".file.bin.part"
    with Server({"file.bin": DATA}, slow=0.2) as server:
        process = worker(tmp_path, server)
        while not part.exists() or part.stat().st_size < 60_000:
            assert process.poll() is None
            time.sleep(0.01)
        process.kill()
        process.wait()
        server.slow = 0.0
        get(tmp_path, server)
    assert len(server.requests) == 2
    assert int(server.requests[1][1][6:-1]) >= 60_000
    assert (tmp_path / "sub" / "file.bin").read_bytes() == DATA
