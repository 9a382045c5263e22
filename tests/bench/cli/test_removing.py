"""`swr remove`."""

import sqlite3
from contextlib import closing

import pytest
from job_tasks import config, epoch, pretend, quick_engine
from stores import HERE

from swr.bench import experiments
from swr.bench.running import execute
from swr.bench.running.engines import claim
from swr.bench.running.first_stages import file_of
from swr.bench.store import Store


@pytest.fixture
def store(folder):
    """Two finished runs, a failed one with a checkpoint, one that waits."""
    with Store("swr.sqlite") as opened:
        opened.add([config(seed) for seed in range(4)], HERE)
        for seed in (0, 1):
            opened.record(config(seed).identity, [epoch(number) for number in range(1, 5)])
            opened.finish(config(seed).identity, {})
        opened.record(config(2).identity, [epoch(1)])
        opened.fail(config(2).identity, "it fell over")
        checkpoint = opened.folder / config(2).identity / "checkpoint.pt"
        checkpoint.parent.mkdir(parents=True)
        checkpoint.write_bytes(b"1")
    return folder


def seeds():
    with closing(sqlite3.connect("swr.sqlite")) as db:
        epochs = {run for (run,) in db.execute("SELECT DISTINCT run FROM metrics")}
        runs = dict(db.execute("SELECT id, seed FROM runs"))
    assert epochs <= set(runs), "no epochs without a run"
    return sorted(runs.values())


def test_failed_runs_are_removed_with_their_epochs_and_checkpoints(swr, store):
    code, out, _ = swr("remove --failed")
    assert code == 0
    assert f"{config(2).identity}  quickstart digits-mlp vanilla seed 2" in out
    assert out.endswith("1 run with 1 epoch removed from swr.sqlite\n")
    assert seeds() == [0, 1, 3]
    assert not (store / "swr.sqlite.runs").exists()


def test_a_first_stage_is_removed_with_the_last_run_that_needs_it(swr, folder):
    runs = experiments.expand("proportionality", columns=["digits-mlp"], seeds=1)[:3]
    with Store("swr.sqlite") as opened:
        opened.add(runs, HERE)
        opened.finish(runs[0].identity, {})
        file = file_of(opened.folder, runs[0])
    file.parent.mkdir(parents=True)
    file.write_bytes(b"1")
    for run, left in zip(runs[1:], (True, False), strict=True):
        code, _, err = swr(f"remove {run.identity}")
        assert code == 0, err
        assert file.exists() == left
    assert not (folder / "swr.sqlite.runs").exists()


def test_a_dry_run_lists_and_changes_nothing(swr, store):
    before = {path.name: path.read_bytes() for path in store.rglob("*") if path.is_file() and "-" not in path.suffix}
    code, out, _ = swr("remove --experiment quickstart --dry-run")
    assert code == 0
    assert out.endswith("4 runs with 9 epochs would be removed from swr.sqlite\n")
    assert all(config(seed).identity in out for seed in range(4))
    assert {path.name: path.read_bytes() for path in store.rglob("*") if path.is_file() and "-" not in path.suffix} == before


def test_runs_are_removed_by_id_and_conditions_must_all_hold(swr, store):
    assert swr(f"remove {config(0).identity} {config(3).identity}")[0] == 0
    assert seeds() == [1, 2]
    code, out, _ = swr(f"remove {config(1).identity} --failed")
    assert (code, out) == (0, "0 runs with 0 epochs removed from swr.sqlite\n")
    assert swr("remove --columns digits-mlp --methods vanilla --failed")[0] == 0
    assert seeds() == [1]


def test_a_run_that_a_process_executes_is_kept(swr, store):
    held = claim.take(store / "swr.sqlite.runs" / config(2).identity)
    code, out, _ = swr("remove --experiment quickstart --dry-run")
    assert f"1 run kept, being executed now: {config(2).identity}" in out
    code, out, _ = swr("remove --experiment quickstart")
    assert code == 0
    assert "3 runs with 8 epochs removed" in out
    assert f"1 run kept, being executed now: {config(2).identity}" in out
    assert seeds() == [2]
    assert (store / "swr.sqlite.runs" / config(2).identity / "checkpoint.pt").exists()
    held.release()


def test_nothing_is_removed_if_anything_fails(swr, store):
    with closing(sqlite3.connect("swr.sqlite", isolation_level=None)) as db:
        db.execute("CREATE TRIGGER no BEFORE DELETE ON runs WHEN old.seed = 2 BEGIN SELECT raise(ABORT, 'no'); END")
    code, _, err = swr("remove --experiment quickstart")
    assert (code, err.count("\n")) == (2, 1)
    assert seeds() == [0, 1, 2, 3]
    assert [path.name for path in (store / "swr.sqlite.runs").rglob("*.pt")] == ["checkpoint.pt"]
    assert [path.name for path in (store / "swr.sqlite.runs").iterdir()] == [config(2).identity], "no folder is left"


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("remove", "say which runs: their ids, --failed"),
        ("remove --dry-run", "say which runs: their ids, --failed"),
        ("remove 0123456789abcdef", "there is no run in the store '0123456789abcdef'"),
        ("remove --methods vanila", "there is no method in the store 'vanila': did you mean vanilla?"),
        ("remove --failed --store other.sqlite", "there is no store at other.sqlite"),
    ],
)
def test_wrong_usage_removes_nothing(swr, store, line, sentence):
    code, out, err = swr(line)
    assert (code, out) == (2, "")
    assert sentence in err
    assert err.count("\n") == 1
    assert seeds() == [0, 1, 2, 3]


def test_a_run_that_is_removed_while_it_waits_in_another_command_is_stored_when_it_runs(folder):
    class Removing:
        """The engine, with a removal in another process between submitting and starting."""

        def __init__(self):
            self.engine = quick_engine(1, pretend)

        def __getattr__(self, name):
            return getattr(self.engine, name)

        def submit(self, job):
            with Store("swr.sqlite") as other:
                other.remove([job.config.identity])
            self.engine.submit(job)

    with Store("swr.sqlite") as store:
        assert len(execute([config(0)], store, engine=Removing()).done) == 1
        [record] = store.runs()
        assert (record.status, record.last.epoch) == ("done", 4)
