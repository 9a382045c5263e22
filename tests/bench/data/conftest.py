import pytest

from swr.bench.data import SOURCES


@pytest.fixture(autouse=True)
def _own_places(monkeypatch, tmp_path):
    """No test sees the user's data, cache or proxy."""
    monkeypatch.setenv("SWR_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("SWR_DATA", raising=False)
    monkeypatch.setenv("NO_PROXY", "*")


@pytest.fixture
def publish(monkeypatch):
    """Make a cut-down entry of the table the published one."""

    def put(source):
        monkeypatch.setitem(SOURCES, source.name, source)
        return source

    return put
