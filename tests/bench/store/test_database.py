import json
import math
import sqlite3
import threading
from pathlib import Path

import pytest
from job_tasks import config, epoch

from swr.bench.store import Provenance, Store, StoreError
from swr.bench.store.schema import SCHEMA

HERE = Provenance({"torch": "2"}, "abc", "host")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "swr.sqlite"


def test_what_goes_in_comes_out_bit_for_bit(path):
    epochs = [
        epoch(1, train_loss=1 / 3, norms={"a": 0.1 + 0.2, "b": 1e-310}, measures={"gap": 2 / 3}),
        epoch(2, train_loss=math.inf, norms={"a": math.inf, "b": -math.inf}, validation_accuracy=0.1),
    ]
    with Store(path) as store:
        store.add([config()], HERE)
        store.record(config().identity, epochs)
        store.finish(config().identity, {"chunks": ["x"]})
    with Store(path, create=False) as store:
        (record,) = store.runs()
        assert store.epochs(record.id) == epochs
        assert (record.config, record.status, record.last) == (config(), "done", epochs[-1])
        assert (record.provenance, record.facts) == (HERE, {"chunks": ["x"]})
        assert record.seconds == pytest.approx(0.02)


def test_a_diverged_run_keeps_its_nans(path):
    with Store(path) as store:
        store.add([config()], HERE)
        store.record(config().identity, [epoch(1, train_loss=math.nan, norms={"a": math.nan})])
        (found,) = store.epochs(config().identity)
        assert math.isnan(found.train_loss)
        assert math.isnan(found.norms["a"])
    (norms,) = sqlite3.connect(path).execute("SELECT norms FROM metrics").fetchone()
    assert json.loads(norms) == {"a": None}  # what every JSON reader takes


def test_an_epoch_that_is_reported_again_replaces_itself(path):
    with Store(path) as store:
        store.add([config()], HERE)
        store.record(config().identity, [epoch(1), epoch(2)])
        store.record(config().identity, [epoch(1, seconds=5.0)])
        assert [e.seconds for e in store.epochs(config().identity)] == [5.0, 0.01]


def test_timings_are_those_of_epochs_that_the_run_trained(path):
    with Store(path) as store:
        store.add([config()], HERE)
        store.record(config().identity, [epoch(1, seconds=0.0), epoch(2, seconds=3.0), epoch(3, seconds=5.0)])
        assert store.timings(HERE.host) == [(config(), 0, 2, 4.0)]


def test_adding_a_run_again_leaves_it_as_it_is(path):
    with Store(path) as store:
        store.add([config(0), config(1)], HERE)
        store.finish(config(0).identity, {})
        store.add([config(0), config(1), config(2)], HERE)
        assert [r.status for r in store.runs(ids=[config(s).identity for s in range(3)])] == ["done", "pending", "pending"]


def test_any_sqlite_tool_reads_it(path):
    with Store(path) as store:
        store.add([config(method="l2", hyper=(("coefficient", 0.1),))], HERE)
    rows = (
        sqlite3.connect(path).execute('SELECT experiment, "column", method, seed, status, host, "commit" FROM runs').fetchall()
    )
    assert rows == [("quickstart", "digits-mlp", "l2", 0, "pending", "host", "abc")]


def test_a_newer_schema_is_refused(path):
    Store(path).close()
    db = sqlite3.connect(path)
    db.execute(f"PRAGMA user_version = {SCHEMA + 1}")
    db.close()
    with pytest.raises(StoreError, match=f"newer swr \\(schema {SCHEMA + 1}, this one knows {SCHEMA}\\): update swr"):
        Store(path)


def test_a_store_of_the_first_schema_is_migrated_and_keeps_its_runs(path):
    with Store(path) as store:
        store.add([config()], HERE)
        store.record(config().identity, [epoch(1), epoch(2)])
    db = sqlite3.connect(path)
    db.execute("ALTER TABLE metrics DROP COLUMN measures")  # what schema 1 did not have
    db.execute("PRAGMA user_version = 1")
    db.close()
    with Store(path) as store:
        assert store.epochs(config().identity) == [epoch(1), epoch(2)]
        store.record(config().identity, [epoch(3, measures={"gap": 0.5})])
    with Store(path) as store:
        assert store.epochs(config().identity)[-1].measures == {"gap": 0.5}
    assert sqlite3.connect(path).execute("PRAGMA user_version").fetchone() == (SCHEMA,)


def test_another_programs_file_is_refused_and_untouched(path):
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE photos (name)")
    db.close()
    with pytest.raises(StoreError, match="of another program"):
        Store(path)
    assert sqlite3.connect(path).execute("SELECT name FROM sqlite_master").fetchall() == [("photos",)]


def test_a_text_file_is_refused_and_untouched(path):
    path.write_text("my thesis, chapter one\n" * 100)
    with pytest.raises(StoreError, match="not a store"):
        Store(path)
    assert path.read_text().startswith("my thesis")


def test_a_damaged_store_is_one_sentence(path):
    with Store(path) as store:
        store.add([config(seed) for seed in range(200)], HERE)
    content = bytearray(path.read_bytes())
    content[4096:] = b"\x5a" * (len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises(StoreError, match="is damaged") as found, Store(path) as store:
        store.runs()
    assert "\n" not in str(found.value)


def test_a_locked_store_is_waited_for_then_one_sentence(path):
    Store(path).close()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match=r"locked by another process and stayed so for 0\.1 s"):
        Store(path, wait=0.1)
    other.execute("COMMIT")
    Store(path, wait=0.1).close()


def test_a_store_that_is_freed_in_time_is_used(path):
    Store(path).close()
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    threading.Timer(0.3, lambda: other.execute("COMMIT")).start()
    with Store(path, wait=10) as store:
        store.add([config()], HERE)
        assert len(store.runs()) == 1


def test_a_full_disk_is_one_sentence_and_loses_nothing(path):
    with Store(path) as store:
        store.add([config()], HERE)
        with store.writing() as db:
            (pages,) = db.execute("PRAGMA page_count").fetchone()
            db.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(StoreError, match="the disk is full"):
            store.add([config(seed) for seed in range(1, 500)], HERE)
        assert [record.config.seed for record in store.runs()] == [0]


@pytest.mark.parametrize(
    ("place", "sentence"), [(".", "is a folder"), ("nowhere/x.sqlite", "does not exist: create it first"), ("x", "no store at")]
)
def test_a_wrong_place_is_one_sentence(tmp_path, place, sentence):
    with pytest.raises(StoreError, match=sentence):
        Store(tmp_path / place, create=place != "x")


def test_two_processes_may_create_it_at_once(path):
    errors = []
    barrier = threading.Barrier(4)

    def open_and_add(seed):
        barrier.wait()
        try:
            with Store(path) as store:
                store.add([config(seed)], HERE)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=open_and_add, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with Store(path) as store:
        assert (errors, len(store.runs())) == ([], 4)


def test_runs_of_another_version_are_left_alone(path):
    with Store(path) as store:
        store.add([config(0), config(1)], HERE)
        with store.writing() as db:
            db.execute("UPDATE runs SET config = replace(config, 'vanilla', 'telepathy') WHERE seed = 1")
        assert [record.config.seed for record in store.runs()] == [0]


def test_an_empty_file_is_no_store_unless_one_may_be_created(path):
    path.touch()
    with pytest.raises(StoreError, match="is empty, not a store"):
        Store(path, create=False)
    assert path.stat().st_size == 0
    assert [one.name for one in path.parent.iterdir()] == [path.name]
    with Store(path) as store:
        assert store.runs() == []


def test_runs_are_removed_all_or_none(path):
    with Store(path) as store:
        store.add([config(0), config(1)], HERE)
        for seed in (0, 1):
            store.record(config(seed).identity, [epoch(1)])
        store.remove([config(0).identity])
        assert [record.config.seed for record in store.runs()] == [1]
        assert (store.epochs(config(0).identity), store.epochs(config(1).identity)) == ([], [epoch(1)])
