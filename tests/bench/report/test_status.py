"""What is in a store, on a terminal."""

import sqlite3
from contextlib import closing

from job_tasks import config
from stores import HERE, finished

from swr.bench import experiments
from swr.bench.store import Store


def test_a_store_of_a_newer_version_is_one_sentence(swr):
    finished("swr.sqlite", [config()])
    with closing(sqlite3.connect("swr.sqlite")) as db:
        db.execute("PRAGMA user_version = 99")
    code, _, err = swr("status")
    assert (code, err.count("\n")) == (2, 1)
    assert "newer swr" in err


def test_status_counts_and_shows_results(swr):
    finished("swr.sqlite", experiments.expand("quickstart", seeds=2))
    with Store("swr.sqlite") as store:
        store.add(interrupted := experiments.expand("quickstart", seeds=[7], methods=["swr"]), HERE)
        store.start(interrupted[0].identity, HERE)
    code, out, _ = swr("status")
    assert code == 0
    assert out.splitlines()[0].split() == ["experiment", "column", "done", "interrupted", "computed"]
    assert out.splitlines()[2].split()[:4] == ["quickstart", "digits-mlp", "10", "1"]
    assert "0.9000 ± 0.0000" in swr("status quickstart")[1]
    assert "holds no runs of lr-decay" in swr("status lr-decay")[1]
