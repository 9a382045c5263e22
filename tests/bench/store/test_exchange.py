import csv
import json
import math
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from job_tasks import config as any_config
from job_tasks import epoch as any_epoch
from stores import HOSTILE, first_schema, make

from swr.bench.store import Provenance, Store, StoreError, csv_files
from swr.bench.store.exchange import ExchangeError, export, merge

HERE = Provenance({"torch": "2"}, "abc", "host")


def config(seed=0, **more):
    return any_config(seed, epochs=2, **more)


def epoch(number, **more):
    return any_epoch(number, total=2, **more)


def dump(path):
    """Every value of a store, exactly."""
    with closing(sqlite3.connect(path)) as db:
        return {table: db.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall() for table in ("runs", "metrics")}


def finished(path, *configs, origin=HERE, accuracy=0.5):
    with Store(path) as store:
        store.add(configs, origin)
        for one in configs:
            store.record(one.identity, [epoch(1), epoch(2, test_accuracy=accuracy)])
            store.finish(one.identity, {})


def test_export_and_import_lose_nothing(tmp_path):
    make(tmp_path / "a", epochs=4, runs=60, hostile=True)
    diverged = config(seed=77)
    with Store(tmp_path / "a") as store:
        store.add([diverged], HERE)
        numbers = {HOSTILE: 0.1 + 0.2, "b": 5e-324, "a": 1.0, "lone\rreturn": 2.0}
        lost = {HOSTILE: 0.1 + 0.2, "b": math.nan, "a": math.inf, "lone\rreturn": 2.0}
        epochs = epoch(1, norms=numbers, measures={"gap": -1 / 3}, seconds=1e-310), epoch(2, norms=lost, train_loss=math.nan)
        store.record(diverged.identity, epochs)
    export(tmp_path / "a", tmp_path / "files", unfinished=True)
    merged = merge(tmp_path / "files", tmp_path / "b")
    assert dump(tmp_path / "b") == dump(tmp_path / "a")
    assert (merged.added, merged.completed, merged.kept) == (65, 0, 0)
    assert any(HOSTILE in (row[9], row[10]) for row in dump(tmp_path / "b")["runs"]), "the host and the commit"


def test_exporting_again_changes_nothing_and_rows_are_ordered_by_what_was_run(tmp_path):
    make(tmp_path / "a", epochs=2, runs=40)
    export(tmp_path / "a", tmp_path / "files", unfinished=True)
    before = {path.name: path.read_bytes() for path in (tmp_path / "files").iterdir()}
    assert sorted(before) == ["measures.csv", "metrics.csv", "norms.csv", "runs.csv"]
    merge(tmp_path / "files", tmp_path / "b")
    export(tmp_path / "b", tmp_path / "files", unfinished=True)
    assert {path.name: path.read_bytes() for path in (tmp_path / "files").iterdir()} == before
    with (tmp_path / "files/runs.csv").open(newline="") as file:
        keys = [(row["experiment"], row["column"], row["method"], int(row["seed"])) for row in csv.DictReader(file)]
    assert keys == sorted(keys)


def test_a_row_per_run_says_all_there_is_to_a_run(tmp_path):
    one = config(method="l2", hyper=(("coefficient", 0.1),))
    finished(tmp_path / "a", one, accuracy=0.25)
    export(tmp_path / "a", tmp_path / "files")
    with (tmp_path / "files/runs.csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    wanted = {
        "id": one.identity, "experiment": "quickstart", "column": "digits-mlp", "method": "l2", "seed": "0", "epochs": "2",
        "cold": "false", "hyper.coefficient": "0.1", "epoch": "2", "test_accuracy": "0.25", "status": "done", "host": "host",
        "commit": "abc", "error": "",
    }  # fmt: skip
    assert {name: row[name] for name in wanted} == wanted
    assert json.loads(row["config"]) == one.to_dict()
    with (tmp_path / "files/metrics.csv").open(newline="") as file:
        assert [(r["run"], r["epoch"], r["train_loss"]) for r in csv.DictReader(file)] == [
            (one.identity, "1", "1.0"),
            (one.identity, "2", "0.5"),
        ]
    assert (tmp_path / "files/norms.csv").read_text().splitlines()[1] == f"{one.identity},1,1.weight,3.0"


def source_of(kind, path):
    if kind == "store":
        return path
    export(path, path.with_name("files"), unfinished=True)
    return path.with_name("files")


@pytest.mark.parametrize("kind", ["store", "files"])
def test_merging_adds_completes_and_keeps(tmp_path, kind):
    there, here = tmp_path / "there", tmp_path / "here"
    done, begun, unknown, both = config(0), config(1), config(2), config(3)
    finished(there, done, begun, both, accuracy=0.75)
    finished(here, both, accuracy=0.25)
    with Store(there) as store:
        store.add([unknown], HERE)
        store.fail(unknown.identity, "it fell over")
    with Store(here) as store:
        store.add([begun], replace(HERE, host="ours"))
        store.record(begun.identity, [epoch(1)])
        store.fail(begun.identity, "no memory")
    source = source_of(kind, there)
    assert str(merge(source, here)) == "2 runs added, 1 completed, 1 known already"
    with Store(here) as store:
        found = {record.config.seed: record for record in store.runs()}
        assert {seed: record.status for seed, record in found.items()} == {0: "done", 1: "done", 2: "failed", 3: "done"}
        assert (found[1].error, found[1].provenance.host) == (None, "host")
        assert [e.test_accuracy for e in store.epochs(begun.identity)] == [0.1, 0.75], "no epoch of ours is left"
        assert found[3].last.test_accuracy == 0.25, "done in both: ours is kept"
        assert found[2].error == "it fell over"
    before = dump(here)
    assert str(merge(source, here)) == "0 runs added, 0 completed, 4 known already"
    assert dump(here) == before


def test_a_folder_of_exported_folders_is_added_as_a_whole(tmp_path):
    one, two, three = (config(seed) for seed in (1, 2, 3))
    for name, runs in {"": [one], "b": [two, three], "a": [one, two]}.items():
        finished(tmp_path / f"store-{name}", *runs)
        export(tmp_path / f"store-{name}", tmp_path / "all" / name)
    (tmp_path / "all" / "notes").mkdir()
    merged = merge(tmp_path / "all", tmp_path / "ours")
    assert (merged.added, merged.completed, merged.kept) == (3, 0, 2)
    for name in ("", "a", "b"):
        merge(tmp_path / f"store-{name}", tmp_path / "each")
    assert dump(tmp_path / "ours") == dump(tmp_path / "each")


def test_one_damaged_folder_of_several_stops_all(tmp_path):
    for name, seed in (("a", 1), ("b", 2)):
        finished(tmp_path / f"store-{name}", config(seed))
        export(tmp_path / f"store-{name}", tmp_path / "all" / name)
    (tmp_path / "all" / "b" / "metrics.csv").unlink()
    with pytest.raises(ExchangeError, match=r"b.metrics\.csv"):
        merge(tmp_path / "all", tmp_path / "ours")
    assert not (tmp_path / "ours").exists()


def test_an_unfinished_run_never_replaces_ours(tmp_path):
    with Store(tmp_path / "there") as store:
        store.add([config(0), config(1)], HERE)
        store.record(config(0).identity, [epoch(1)])
        store.fail(config(1).identity, "theirs")
    finished(tmp_path / "here", config(0))
    with Store(tmp_path / "here") as store:
        store.add([config(1)], HERE)
        store.fail(config(1).identity, "ours")
    before = dump(tmp_path / "here")
    assert merge(tmp_path / "there", tmp_path / "here").kept == 2
    assert dump(tmp_path / "here") == before


def exported(tmp_path):
    finished(tmp_path / "a", config(0), config(1))
    export(tmp_path / "a", tmp_path / "files")
    return tmp_path / "files"


def change(path, old, new, count=1):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, count))


@pytest.mark.parametrize(
    ("file", "old", "new", "sentence"),
    [
        ("runs.csv", '""seed"": 0', '""seed"": 5', r"runs\.csv, line 2: the id '\w+' does not belong to the configuration"),
        ("runs.csv", '""seed"": 0', '""seed"": ""x""', r"runs\.csv, line 2: the run is damaged"),
        ("runs.csv", '"{""batch', '"{""batch"",', r"runs\.csv, line 2: the run is damaged"),
        ("runs.csv", ",done,", ",finished,", r"runs\.csv, line 2: 'finished' is not the status of a run"),
        ("runs.csv", ",abc,host,", ",abc,host,x", r"runs\.csv, line 2: created is 'x[\d.]+', not a number"),
        ("runs.csv", ",abc,host,", ",abc,", r"runs\.csv, line 2: \d+ fields instead of \d+"),
        ("runs.csv", "id,", "name,", r"runs\.csv, line 1: there is no column 'id'"),
        ("metrics.csv", ",1,0,2,1.0,", ",1,0,2,one,", r"metrics\.csv, line 2: train_loss is 'one', not a number"),
        ("metrics.csv", ",1,0,2,", ",first,0,2,", r"metrics\.csv, line 2: invalid literal"),
        ("metrics.csv", "\n", "\n0000000000000000,1,0,2,1.0,0.5,0.1,,0.01\n", r"line 2: the run '0+' is not in runs\.csv"),
        ("norms.csv", ",1.weight,3.0", ",1.weight,many", r"norms\.csv, line 2: value is 'many', not a number"),
        ("norms.csv", ",1,1.weight", ",9,1.weight", r"norms\.csv, line 2: metrics\.csv has no epoch 9"),
    ],
)
def test_damaged_files_are_refused_with_the_place_and_nothing_is_imported(tmp_path, file, old, new, sentence):
    files = exported(tmp_path)
    change(files / file, old, new)
    finished(tmp_path / "b", config(9))
    before = dump(tmp_path / "b")
    with pytest.raises(ExchangeError, match=sentence) as found:
        merge(files, tmp_path / "b")
    assert "\n" not in str(found.value)
    assert dump(tmp_path / "b") == before
    with pytest.raises(ExchangeError):
        merge(files, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_an_epoch_that_is_there_twice_is_refused(tmp_path):
    files = exported(tmp_path)
    text = (files / "metrics.csv").read_text()
    (files / "metrics.csv").write_text(text + text.splitlines()[-1] + "\n")
    with pytest.raises(ExchangeError, match="is there twice"):
        merge(files, tmp_path / "b")


@pytest.mark.parametrize(
    ("file", "old", "new", "sentence"),
    [
        ("metrics.csv", ",2,0,2,0.5,", ",2,0,2,nan,", r"metrics\.csv, line 3: train_loss of run \w{16} is nan"),
        ("metrics.csv", ",2,0,2,0.5,", ",2,0,2,,", r"line 3: train_loss in epoch 2 of run \w{16} is nan, it must be a finite"),
        (
            "metrics.csv",
            ",2,0,2,0.5,",
            ",2,0,2,inf,",
            r"line 3: train_loss in epoch 2 of run \w{16} is inf, it must be a finite",
        ),
        ("metrics.csv", ",2,0,2,0.5,", ",2,0,2,-0.5,", r"line 3: train_loss in epoch 2 of run \w{16} is -0.5"),
        ("metrics.csv", ",0.5,,0.01", ",1.5,,0.01", r"line 3: test_accuracy in epoch 2 of run \w{16} is 1.5, .* from 0 to 1"),
        ("metrics.csv", ",0.5,,0.01", ",,,0.01", r"line 3: test_accuracy in epoch 2 of run \w{16} is nan, .* from 0 to 1"),
        ("metrics.csv", ",0.5,,0.01", ",0.5,0.9,0.01", r"line 3: validation_accuracy .* is 0.9, .* nothing was held out"),
        ("metrics.csv", ",0.01", ",-0.01", r"line 2: seconds in epoch 1 of run \w{16} is -0.01"),
        ("metrics.csv", ",0,2,", ",0,4,", r"line 2: total in epoch 1 of run \w{16} is 4, it must be 2"),
        ("metrics.csv", ",0,2,", ",1,2,", r"line 2: stage in epoch 1 of run \w{16} is 1, it must be 0"),
        ("norms.csv", "1.weight,3.0", "1.weight,", r"norms\.csv, line 2: 1\.weight in epoch 1 of run \w{16} is nan"),
        ("norms.csv", "1.weight,3.0", "1.weight,inf", r"norms\.csv, line 2: 1\.weight in epoch 1 of run \w{16} is inf"),
        ("norms.csv", "1.weight,3.0", "1.weight,-3", r"norms\.csv, line 2: 1\.weight in epoch 1 of run \w{16} is -3"),
        ("norms.csv", "1.weight,3.0", "2.weight,3.0", r"line 3: the norm of 1\.weight in epoch 2 of run \w{16} is there, "),
        ("runs.csv", ",abc,host,", ",abc,host,-", r"runs\.csv, line 2: created of run \w{16} is -"),
    ],
)
def test_values_that_cannot_be_are_refused_with_run_and_line(tmp_path, file, old, new, sentence):
    test_damaged_files_are_refused_with_the_place_and_nothing_is_imported(tmp_path, file, old, new, sentence)


@pytest.mark.parametrize("kind", ["store", "files"])
@pytest.mark.parametrize("missing", [1, 2])
def test_a_finished_run_that_lacks_an_epoch_is_refused(tmp_path, kind, missing):
    finished(tmp_path / "a", config(0), config(1))
    run = config(1).identity
    with closing(sqlite3.connect(tmp_path / "a", isolation_level=None)) as db:
        db.execute("DELETE FROM metrics WHERE run = ? AND epoch = ?", (run, missing))
    source = source_of(kind, tmp_path / "a")
    with pytest.raises(
        ExchangeError, match=rf"run {run} is done, but holds 1 of its 2 epochs, epoch {missing} is missing"
    ) as found:
        merge(source, tmp_path / "b")
    assert (kind == "store") or "runs.csv, line " in str(found.value)
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("change", ["test_accuracy = 7", "train_loss = 'high'", "norms = '[1]'", "seconds = -1"])
def test_values_that_cannot_be_are_refused_in_a_store(tmp_path, change):
    finished(tmp_path / "a", config(0), config(1))
    with closing(sqlite3.connect(tmp_path / "a", isolation_level=None)) as db:
        db.execute(f"UPDATE metrics SET {change} WHERE run = ? AND epoch = 2", (config(1).identity,))
    with pytest.raises(ExchangeError, match=rf"epoch 2.*{config(1).identity}|{config(1).identity}, epoch 2"):
        merge(tmp_path / "a", tmp_path / "b")
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("name", csv_files.FILES)
def test_a_missing_or_broken_file_is_one_sentence(tmp_path, name):
    files = exported(tmp_path)
    content = (files / name).read_bytes()
    (files / name).write_bytes(content + b'"\xff\xfe')
    with pytest.raises(ExchangeError, match="is damaged"):
        merge(files, tmp_path / "b")
    (files / name).unlink()
    with pytest.raises(ExchangeError, match=f"{name} is missing: name a folder that `swr export` wrote"):
        merge(files, tmp_path / "b")


def test_a_damaged_run_in_a_store_is_refused(tmp_path):
    finished(tmp_path / "a", config(0), config(1))
    with closing(sqlite3.connect(tmp_path / "a", isolation_level=None)) as db:
        db.execute("UPDATE runs SET config = replace(config, '\"seed\": 1', '\"seed\": 8') WHERE seed = 1")
    with pytest.raises(ExchangeError, match=f"run {config(1).identity}: the id .* one of them was changed"):
        merge(tmp_path / "a", tmp_path / "b")
    assert not (tmp_path / "b").exists()


def test_runs_of_another_version_are_left_out_and_counted(tmp_path):
    finished(tmp_path / "a", config(0), config(1))
    with closing(sqlite3.connect(tmp_path / "a", isolation_level=None)) as db:
        db.execute("UPDATE runs SET config = replace(config, 'vanilla', 'teleportation') WHERE seed = 1")
    assert str(merge(source_of("files", tmp_path / "a"), tmp_path / "b")).endswith("1 of another version of swr left out")
    assert len(dump(tmp_path / "b")["runs"]) == 1


def test_wrong_sources_are_one_sentence(tmp_path):
    finished(tmp_path / "a", config(0))
    (tmp_path / "text").write_text("my thesis")
    (tmp_path / "folder").mkdir()
    with pytest.raises(ExchangeError, match="there is nothing at"):
        merge(tmp_path / "nowhere", tmp_path / "b")
    with pytest.raises(ExchangeError, match="is no store"):
        merge(tmp_path / "text", tmp_path / "b")
    with pytest.raises(ExchangeError, match=r"runs\.csv is missing"):
        merge(tmp_path / "folder", tmp_path / "b")
    with pytest.raises(ExchangeError, match="is the store itself"):
        merge(tmp_path / "a", tmp_path / "a")
    with pytest.raises(ExchangeError, match="is a file: name a folder"):
        export(tmp_path / "a", tmp_path / "text")
    with pytest.raises(StoreError, match="there is no store"):
        export(tmp_path / "nowhere", tmp_path / "files")
    assert not (tmp_path / "b").exists()


def test_an_older_store_is_imported(tmp_path):
    first_schema(tmp_path / "old")
    with closing(sqlite3.connect(tmp_path / "old", isolation_level=None)) as db:
        db.execute("UPDATE metrics SET norms = replace(norms, 'null', '1.0')")
        columns = "stage, total, train_loss, train_accuracy, test_accuracy, validation_accuracy, norms, seconds"
        numbers = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 199)"
        db.execute(f"INSERT INTO metrics (run, epoch, {columns}) {numbers} SELECT run, i, {columns} FROM metrics, n")
    assert merge(tmp_path / "old", tmp_path / "b").added == 1
    with Store(tmp_path / "b") as store:
        assert [record.last.test_accuracy for record in store.runs()] == [0.875]


def test_export_while_another_process_writes(tmp_path):
    """What is being written is not seen, and does not stop the export."""
    finished(tmp_path / "a", config(0))
    with Store(tmp_path / "a") as reader, Store(tmp_path / "a") as writer:
        writer.add([config(1)], HERE)
        with writer.writing() as db:
            db.execute("DELETE FROM metrics")
            assert csv_files.write(reader, tmp_path / "files") == (1, 2, 1)
    assert merge(tmp_path / "files", tmp_path / "b").added == 1


def test_an_export_that_fails_leaves_the_files_as_they_were(tmp_path, monkeypatch):
    files = exported(tmp_path)
    before = {path.name: path.read_bytes() for path in files.iterdir()}
    finished(tmp_path / "a", config(2))

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("swr.bench.store.csv_files.line", full)
    with pytest.raises(ExchangeError, match=r"cannot be written \(No space left on device\): name another folder"):
        export(tmp_path / "a", files)
    assert {path.name: path.read_bytes() for path in files.iterdir()} == before


def test_files_that_a_spreadsheet_or_another_order_touched_are_read(tmp_path):
    make(tmp_path / "a", epochs=3, runs=5)
    export(tmp_path / "a", tmp_path / "files", unfinished=True)
    for name in csv_files.FILES:
        head, *rows = (tmp_path / "files" / name).read_text().splitlines() if name != "runs.csv" else [None]
        if head:
            Path(tmp_path / "files" / name).write_text("\ufeff" + "\r\n".join([head, *reversed(rows)]) + "\r\n", newline="")
    merge(tmp_path / "files", tmp_path / "b")
    names = dump(tmp_path / "a")["metrics"][0][8], dump(tmp_path / "b")["metrics"][0][8]
    assert json.loads(names[0]) == json.loads(names[1])
    assert len(dump(tmp_path / "b")["metrics"]) == len(dump(tmp_path / "a")["metrics"])


def test_an_import_that_breaks_in_the_middle_adds_nothing(tmp_path):
    finished(tmp_path / "a", *(config(seed) for seed in range(3)))
    with closing(sqlite3.connect(tmp_path / "a", isolation_level=None)) as db:
        db.execute("UPDATE metrics SET norms = '{' WHERE run = ?", (max(config(s).identity for s in range(3)),))
    finished(tmp_path / "b", config(9))
    before = dump(tmp_path / "b")
    with pytest.raises(StoreError, match="is damaged"):
        merge(tmp_path / "a", tmp_path / "b")
    assert dump(tmp_path / "b") == before


def test_a_folder_that_holds_runs_which_the_store_lacks_is_not_replaced(tmp_path):
    files = exported(tmp_path)
    before = {path.name: path.read_bytes() for path in files.iterdir()}
    finished(tmp_path / "b", config(1), config(2))
    with pytest.raises(
        ExchangeError, match=rf"holds 1 run that .*b lacks or has not finished, such as {config(0).identity}: `swr im"
    ):
        export(tmp_path / "b", files)
    assert {path.name: path.read_bytes() for path in files.iterdir()} == before
    merge(files, tmp_path / "b")
    assert export(tmp_path / "b", files).startswith("3 runs and 6 epochs of ")


def test_a_finished_run_of_an_export_is_not_replaced_by_an_unfinished_one(tmp_path):
    files = exported(tmp_path)
    with Store(tmp_path / "b") as store:
        store.add([config(0), config(1)], HERE)
    with pytest.raises(ExchangeError, match=r"holds 2 runs that .* lacks or has not finished"):
        export(tmp_path / "b", files, unfinished=True)


@pytest.mark.parametrize("name", csv_files.FILES)
def test_a_file_that_export_did_not_write_is_kept(tmp_path, name):
    finished(tmp_path / "a", config(0))
    (tmp_path / "files").mkdir()
    for content in ("step,loss\n1,0.5\n", "", b"\xff\xfe".decode("latin-1")):
        (tmp_path / "files" / name).write_text(content, encoding="latin-1")
        with pytest.raises(ExchangeError, match=f"{name} is no file that `swr export` wrote, and is kept"):
            export(tmp_path / "a", tmp_path / "files")
        assert [path.name for path in (tmp_path / "files").iterdir()] == [name]
        assert (tmp_path / "files" / name).read_text(encoding="latin-1") == content


def test_a_part_of_an_export_is_not_replaced(tmp_path):
    files = exported(tmp_path)
    (files / "runs.csv").unlink()
    with pytest.raises(ExchangeError, match=r"holds metrics\.csv, but no runs\.csv"):
        export(tmp_path / "a", files)


def test_unfinished_runs_are_left_out_unless_asked_for(tmp_path):
    finished(tmp_path / "a", config(0))
    with Store(tmp_path / "a") as store:
        store.add([config(1), config(2)], HERE)
        store.fail(config(2).identity, "it fell over")
        store.record(config(1).identity, [epoch(1)])
    told = export(tmp_path / "a", tmp_path / "files")
    assert told.endswith("2 unfinished runs left out, --unfinished adds them")
    assert {row[0] for _, row in csv_files.read(tmp_path / "files")[0]} == {config(0).identity}
    assert export(tmp_path / "a", tmp_path / "files", unfinished=True).startswith("3 runs and 3 epochs of ")
    assert export(tmp_path / "a", tmp_path / "files").startswith("1 run and 2 epochs of "), "the store has the others"


def test_the_last_epoch_alone_is_written_of_finished_runs_only(tmp_path):
    done, broken = config(seed=1), config(seed=2)
    finished(tmp_path / "a", done)
    with Store(tmp_path / "a") as store:
        store.add([broken], HERE)
        store.record(broken.identity, [epoch(1)])
        store.fail(broken.identity, "ValueError: diverged")
        longer = replace(config(seed=3), epochs=(3,))
        store.add([longer], HERE)
        store.record(longer.identity, [any_epoch(number, total=3) for number in (1, 2)])
        store.fail(longer.identity, "ValueError: diverged")
    export(tmp_path / "a", tmp_path / "files", unfinished=True, last=True)
    assert merge(tmp_path / "files", tmp_path / "b").added == 3
    with Store(tmp_path / "b") as store:
        assert {record.config.seed: record.status for record in store.runs()} == {1: "done", 2: "failed", 3: "failed"}
    epochs = {}
    for run, number, *_ in dump(tmp_path / "b")["metrics"]:
        epochs.setdefault(run, []).append(number)
    assert epochs == {done.identity: [2], broken.identity: [1], longer.identity: [1, 2]}
