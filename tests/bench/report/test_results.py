import os
import sqlite3
import sys
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from job_tasks import config
from stores import finished, first_schema, make

from swr.bench import experiments
from swr.bench.report.results import load
from swr.bench.store import Provenance, Store, StoreError

HERE = Provenance({}, None, "host")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "swr.sqlite"


def test_one_pass_reads_what_the_store_gives_run_by_run(path):
    make(path, runs=40, epochs=10, hostile=True)
    found = load(path)
    with Store(path) as store:
        assert found.records == store.runs()
        assert found.epochs == {record.id: store.epochs(record.id) for record in store.runs()}
    statuses = [record.status for record in found.records]
    assert {status: statuses.count(status) for status in ("failed", "running", "pending")} == {
        "failed": 1,
        "running": 1,
        "pending": 1,
    }
    assert sum(map(len, found.epochs.values())) > 300


def test_the_number_of_questions_does_not_grow_with_the_number_of_runs(tmp_path):
    counts = []
    for runs in (4, 40):
        make(tmp_path / f"{runs}.sqlite", runs=runs, epochs=10)
        with Store(tmp_path / f"{runs}.sqlite") as store:
            asked = []
            with store.reading() as db:
                db.set_trace_callback(asked.append)
            asked.clear()
            assert len(load(store).records) == runs
            counts.append(len(asked))
    assert counts[0] == counts[1] < 10


def test_a_run_whose_process_died_is_not_running(path):
    with Store(path) as store:
        (config,) = experiments.expand("quickstart", methods=["swr"], seeds=1)
        store.add([config], HERE)
        store.start(config.identity, HERE)
        assert [record.status for record in store.runs()] == ["running"]
        assert [record.status for record in load(store).records] == ["pending"]


def test_runs_and_epochs_are_of_one_moment(path, monkeypatch):
    """Between the two questions another process adds an epoch, and it is not seen."""
    make(path, runs=4, epochs=10)
    with Store(path) as store, Store(path) as other:
        run = next(record for record in store.runs() if record.status == "running")
        real = Store.runs

        def then_write(self, *_, **__):
            found = real(self)
            (last,) = other.epochs(run.id)[-1:]
            other.record(run.id, [type(last)(**{**vars(last), "epoch": last.epoch + 1})])
            return found

        monkeypatch.setattr(Store, "runs", then_write)
        found = load(store)
        monkeypatch.undo()
        assert found.epochs[run.id][-1] == run.last
        assert load(store).epochs[run.id][-1].epoch == run.last.epoch + 1


def test_an_older_store_is_migrated(path):
    first_schema(path)
    found = load(path)
    (record,) = found.records
    assert record.id == record.config.identity
    (epoch,) = found.epochs[record.id]
    assert (epoch.test_accuracy, epoch.measures, epoch.norms["1.weight"]) == (0.875, {}, 3.0)


def test_a_store_with_text_that_is_no_json_is_one_sentence(path):
    make(path, runs=4, epochs=2)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("UPDATE metrics SET norms = '{\"a\": 1' WHERE epoch = 1")
    with pytest.raises(StoreError, match=r"is damaged .*: restore a copy") as found:
        load(path)
    assert "\n" not in str(found.value)


def test_an_empty_store_has_no_results(path):
    Store(path).close()
    assert load(path).records == []
    with pytest.raises(StoreError, match="there is no store"):
        load(path.with_name("other"))


@contextmanager
def powerless():
    """As a user to whom permissions apply; the superuser may write everything."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.skipif(sys.platform == "win32", reason="permissions")
@pytest.mark.parametrize("older", [False, True])
@pytest.mark.parametrize("mode", [0o555, 0o755])
def test_a_store_that_cannot_be_written_is_read_and_left_as_it_is(older, mode):
    with TemporaryDirectory() as folder:
        place, path = Path(folder), Path(folder, "swr.sqlite")
        if older:
            first_schema(path)
        else:
            finished(path, [config()])
        before = {file.name: file.read_bytes() for file in place.iterdir()}
        path.chmod(0o444)
        place.chmod(mode)
        with powerless():
            with pytest.raises(OSError, match="denied"):
                path.open("ab")
            found = load(path)
        place.chmod(0o755)
        assert [record.status for record in found.records] == ["done"]
        assert {file.name: file.read_bytes() for file in place.iterdir()} == before


@pytest.mark.skipif(sys.platform == "win32", reason="permissions")
def test_what_is_wrong_with_such_a_store_is_said_by_its_own_name():
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        path = Path(folder, "swr.sqlite")
        path.write_text("my thesis\n" * 100)
        path.chmod(0o444)
        with powerless(), pytest.raises(StoreError, match=f"{path} is not a store"):
            load(path)
