import logging
import os
import subprocess
import sys
import time

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from swr.bench.data import Dataset, Split, cache
from swr.bench.data.dataset import moments


def dataset(train=7, test=3, shape=(3, 5, 4), seed=0):
    generator = torch.Generator().manual_seed(seed)
    splits = [
        Split(
            torch.randint(0, 256, (count, *shape), dtype=torch.uint8, generator=generator),
            torch.randint(0, 9, (count,), generator=generator),
        )
        for count in (train, test)
    ]
    return Dataset("some", 9, *splits, *moments(splits[0].images))


def same(one, other):
    return (
        (one.name, one.classes, one.mean, one.std) == (other.name, other.classes, other.mean, other.std)
        and torch.equal(one.train.images, other.train.images)
        and torch.equal(one.train.labels, other.train.labels)
        and torch.equal(one.test.images, other.test.images)
        and torch.equal(one.test.labels, other.test.labels)
    )


@pytest.fixture
def path(tmp_path):
    return tmp_path / "some.swrdata"


@given(st.integers(1, 9), st.integers(0, 9), st.tuples(*[st.integers(1, 5)] * 3), st.integers(0, 99))
def test_what_is_written_is_read_back(tmp_path_factory, train, test, shape, seed):
    path = tmp_path_factory.mktemp("cache") / "some.swrdata"
    written = dataset(train, test, shape, seed)
    cache.write(path, written)
    assert same(cache.read(path), written)


def test_the_tensors_are_a_private_map(path):
    cache.write(path, dataset())
    one, other = cache.read(path), cache.read(path)
    before = path.read_bytes()
    one.train.images.zero_()
    one.train.labels.zero_()
    assert same(other, dataset())
    assert path.read_bytes() == before


def test_a_mapped_tensor_outlives_its_file(path):
    cache.write(path, dataset())
    mapped = cache.read(path)
    cache.write(path, dataset(seed=1))
    assert same(mapped, dataset())
    path.unlink()
    assert same(mapped, dataset())


def test_any_flipped_byte_and_any_truncation_is_seen(path):
    cache.write(path, dataset(2, 1, (1, 2, 2)))
    sound = path.read_bytes()
    for index in range(len(sound)):
        path.write_bytes(sound[:index] + bytes([sound[index] ^ 0x10]) + sound[index + 1 :])
        assert cache.read(path) is None, index
        path.write_bytes(sound[:index])
        assert cache.read(path) is None, index
    path.write_bytes(sound + b"\x00")
    assert cache.read(path) is None


@pytest.mark.parametrize("damage", [lambda data: data[:-9], lambda data: data[:-9] + b"corrupted", lambda data: b""])
def test_a_damaged_cache_file_is_rebuilt(damage):
    calls = []

    def decode():
        calls.append(1)
        return dataset()

    for _ in range(2):
        assert same(cache.fetch("some", "here", ["v1"], decode), dataset())
    assert len(calls) == 1
    file = cache.path_of("some", "here", ["v1"])
    file.write_bytes(damage(file.read_bytes()))
    assert same(cache.fetch("some", "here", ["v1"], decode), dataset())
    assert len(calls) == 2
    assert cache.read(file) is not None


def test_new_sources_replace_the_cache_file_of_the_old_ones_and_no_other():
    for place, version in (("here", "v1"), ("there", "v1"), ("here", "v2")):
        cache.fetch("some", place, [version], dataset)
    assert cache.read(cache.path_of("some", "here", ["v1"])) is None
    assert cache.read(cache.path_of("some", "here", ["v2"])) is not None
    assert cache.read(cache.path_of("some", "there", ["v1"])) is not None


def test_what_killed_processes_left_is_removed():
    file = cache.path_of("some", "here", ["v1"])
    file.parent.mkdir(parents=True)
    old, fresh = (file.with_name(f".{file.name}.{pid}.tmp") for pid in (1, 2))
    for left in (old, fresh):
        left.write_bytes(b"half")
    os.utime(old, (time.time() - 7200,) * 2)
    cache.fetch("some", "here", ["v1"], dataset)
    assert not old.exists()
    assert fresh.exists()


def test_a_failed_write_leaves_no_file_and_the_data_is_used_all_the_same(monkeypatch, caplog, tmp_path):
    def full(_):
        raise OSError(28, "No space left on device")

    calls = []
    monkeypatch.setattr("os.fsync", full)
    with caplog.at_level(logging.WARNING, "swr"):
        result = cache.fetch("some", "here", ["v1"], lambda: calls.append(1) or dataset())
    assert same(result, dataset())
    assert len(calls) == 1
    assert "No space left on device" in caplog.text
    assert "set SWR_CACHE" in caplog.text
    assert [file.suffix for file in (tmp_path / "cache" / "decoded").iterdir()] == [".lock"]


def test_a_cache_folder_that_cannot_be_made_does_not_stop_the_run(monkeypatch, caplog, tmp_path):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("SWR_CACHE", str(tmp_path / "file"))
    with caplog.at_level(logging.WARNING, "swr"):
        assert same(cache.fetch("some", "here", ["v1"], dataset), dataset())
    assert "is not cached in" in caplog.text


WORKER = """
import sys, time
from pathlib import Path
import torch
from swr.bench.data import Dataset, Split, cache

def decode():
    with Path(sys.argv[1]).open("a") as log:
        log.write("decoded\\n")
    time.sleep(1)
    split = Split(torch.full((5, 1, 2, 2), 7, dtype=torch.uint8), torch.arange(5))
    return Dataset("some", 5, split, split, (0.5,), (0.5,))

print("ready", flush=True)
sys.stdin.readline()
dataset = cache.fetch("some", "here", ["v1"], decode)
assert int(dataset.test.images.sum()) == 140
"""


def worker(log):
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", WORKER, str(log)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_processes_that_need_the_same_data_at_once_decode_it_once(tmp_path):
    log = tmp_path / "log"
    workers = [worker(log) for _ in range(2)]
    for process in workers:
        assert process.stdout.readline() == "ready\n"
    for process in workers:
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in workers:
        process.communicate(timeout=60)
        assert process.returncode == 0
    assert log.read_text() == "decoded\n"


def test_a_killed_decoder_does_not_block_the_next(tmp_path):
    log = tmp_path / "log"
    process = worker(log)
    assert process.stdout.readline() == "ready\n"
    process.stdin.write("go\n")
    process.stdin.flush()
    while not log.exists():
        time.sleep(0.01)
    process.kill()
    process.communicate()
    assert same(cache.fetch("some", "here", ["v1"], dataset), dataset())
