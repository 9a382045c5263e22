"""Claims on runs."""

import subprocess
import sys

import pytest

from swr.bench import files
from swr.bench.running.engines import claim

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals")


def test_a_claim_is_exclusive_until_it_is_released(tmp_path):
    first = claim.take(tmp_path / "run")
    assert first is not None
    assert claim.take(tmp_path / "run") is None
    assert claim.held(tmp_path / "run")
    first.release()
    second = claim.take(tmp_path / "run")
    assert second is not None
    second.release(remove=True)
    assert not (tmp_path / "run").exists()
    assert not claim.held(tmp_path / "run")


def test_a_claim_dies_with_its_holder(tmp_path):
    script = (
        "from pathlib import Path; from swr.bench.running.engines import claim;"
        f"ours = claim.take(Path({str(tmp_path)!r})); print('ok', flush=True); input()"
    )
    holder = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "ok\n"
    assert claim.held(tmp_path)
    holder.kill()
    holder.communicate()
    assert not claim.held(tmp_path)
    found = claim.take(tmp_path)
    assert found is not None
    found.release()


def test_a_claim_on_a_file_that_was_removed_meanwhile_is_taken_again(tmp_path, monkeypatch):
    """Its last holder removes the folder between our opening the file and our locking it."""
    folder, real, rivals = tmp_path / "run", files.lock, []

    def lock_after_removal(file, **options):
        if not rivals:
            monkeypatch.setattr(files, "lock", real)
            claim.take(folder).release(remove=True)
            rivals.append(claim.take(folder))
        real(file, **options)

    monkeypatch.setattr(files, "lock", lock_after_removal)
    assert claim.take(folder) is None, "two processes hold the same run"
    rivals[0].release()
