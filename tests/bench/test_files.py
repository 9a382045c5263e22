"""Files that several processes share."""

import os
import subprocess
import sys

import pytest

from swr.bench.files import lock, locked, replacing


@pytest.mark.parametrize("durable", [True, False])
def test_files_are_replaced_together(tmp_path, durable):
    paths = [tmp_path / name for name in "ab"]
    for path in paths:
        path.write_text("old")
    with replacing(*paths, durable=durable) as files:
        for file in files:
            file.write(b"new")
        assert [path.read_text() for path in paths] == ["old", "old"], "replaced before the end"
    assert [path.read_text() for path in paths] == ["new", "new"]
    assert sorted(tmp_path.iterdir()) == paths


def test_a_failure_leaves_all_files_as_they_were_and_nothing_else(tmp_path):
    paths = [tmp_path / name for name in "ab"]
    paths[0].write_text("old")

    def fail():
        with replacing(*paths, mode="w") as [first, _]:
            first.write("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert paths[0].read_text() == "old"
    assert list(tmp_path.iterdir()) == paths[:1]


def test_a_disk_that_is_full_at_the_end_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "a"
    path.write_text("old")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"), replacing(path, durable=True) as [file]:
        file.write(b"new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_text_is_utf8_with_its_line_ends(tmp_path):
    with replacing(tmp_path / "a", mode="w") as [file]:
        file.write("λ\r\nx\n")
    assert (tmp_path / "a").read_bytes() == "λ\r\nx\n".encode()


def test_a_lock_is_held_by_one_process_and_released_when_that_is_killed(tmp_path):
    script = f"""if True:
        from pathlib import Path
        from swr.bench.files import locked
        with locked(Path({str(tmp_path / "lock")!r})):
            print("ok", flush=True)
            input()
    """
    holder = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "ok\n"
    with (tmp_path / "lock").open("r+b") as file:
        with pytest.raises(OSError, match=r"unavailable|denied"):
            lock(file, wait=False)
        holder.kill()
        holder.communicate()
        lock(file, wait=False)
    with locked(tmp_path / "lock"):
        pass
