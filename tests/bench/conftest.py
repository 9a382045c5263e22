"""What all tests of the bench share."""

import pytest
import torch

from swr.bench.cli import main


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch, tmp_path_factory):
    """No test writes to the user's cache; decoded data is shared by the tests of a process."""
    monkeypatch.setenv("SWR_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture
def one_thread():
    """As many threads as a worker has, so that results have the same bits."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder, and the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def swr(folder, capfd):
    """Runs a command in an empty folder; its exit code, its output, and its errors."""

    def call(line):
        with pytest.raises(SystemExit) as end:
            main(line.split())
        return end.value.code, *capfd.readouterr()

    return call


OWN = """
from swr.methods import Method

class Nothing(Method):
    \"\"\"Do nothing, slowly.\"\"\"
    title = "nothing"

number = 3
"""


@pytest.fixture
def own(folder, monkeypatch):
    """A folder with two modules of the user's: one for tests that import it, one that no test may import."""
    monkeypatch.syspath_prepend(str(folder))
    for name in ("ownmethods.py", "untold.py"):
        (folder / name).write_text(OWN)
