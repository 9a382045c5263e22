"""Local processes."""

import sys

import job_tasks
import pytest
from job_tasks import config, quick_engine

from swr.bench.running.engines import EngineError
from swr.bench.running.jobs import execute
from swr.bench.store import Store

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals")


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "s.sqlite") as found:
        yield found


def test_workers_that_cannot_start_are_one_sentence(store, monkeypatch):
    monkeypatch.setattr("swr.bench.running.engines.local.worker.main", job_tasks.die_at_once)
    with pytest.raises(EngineError, match="worker processes end before they are ready"):
        execute([config(0)], store, engine=quick_engine(1, job_tasks.pretend))
