"""The commands that train."""

import sqlite3
from contextlib import closing

import pytest
from job_tasks import crash_on_odd_seeds, pretend, quick_engine
from stores import finished

from swr.bench import experiments
from swr.bench.cli import main
from swr.bench.store import Store


@pytest.mark.parametrize("experiment", ["proportionality", "balancedness"])
def test_the_command_runs_both_on_digits_and_keeps_what_they_measure(experiment, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    line = f"run {experiment} --columns digits-mlp --methods vanilla --seeds 1 --epochs-scale 0.02 --workers 1"
    with pytest.raises(SystemExit) as end:
        main(line.split())
    assert end.value.code == 0, capfd.readouterr().err
    with Store(tmp_path / "swr.sqlite") as store:
        [record] = store.runs()
        kept = store.epochs(record.id)
    if experiment == "proportionality":
        assert [list(epoch.measures) for epoch in kept] == [[], [], ["test_accuracy_at_start"]]
    else:
        assert all(len(epoch.measures) == 4 and all(key.endswith("over minimum") for key in epoch.measures) for epoch in kept)


def test_an_agent_is_run_stored_and_reported_as_any_other_run(swr, folder):
    line = "run changing-channels --columns cartpole-ppo --methods vanilla full-reset --seeds 2 --epochs-scale 0.25"
    code, out, err = swr(f"{line} --examples 1024 --workers 1")
    assert code == 0, err
    assert "average return / 500" in out
    with Store(folder / "swr.sqlite") as store:
        assert {record.status for record in store.runs()} == {"done"}
        assert {record.config.total for record in store.runs()} == {2}
    code, _, err = swr("export -o files")
    assert code == 0, err
    code, _, err = swr("import files --store other.sqlite")
    assert code == 0, err
    code, out, err = swr("report --store other.sqlite --markdown report.md")
    assert code == 0, err
    text = (folder / "report.md").read_text()
    assert "Control with changing sensors" in text
    assert "full reset (fresh network)" in text
    assert "average return / 500" in text


def test_a_run_ends_with_a_table_and_is_not_repeated(swr, folder):
    line = "run quickstart --methods cold,vanilla swr --seeds 2 --epochs-scale 0.02 --workers 1"
    code, out, err = swr(line)
    assert code == 0, err
    assert "vanilla (cold start)" in out
    assert "±" in out
    assert "mean ± standard deviation over 2 seeds" in " ".join(out.split())
    assert err.count("✓") == 6
    assert sorted(path.name for path in folder.iterdir() if path.suffix != ".sqlite-shm") == ["swr.html", "swr.sqlite"]
    again, same, err = swr(line)
    assert (again, same) == (0, out)
    assert "6 of them done before" in err
    assert "✓" not in err


def test_a_failed_run_is_code_1_with_the_reason_in_status(swr, monkeypatch):
    monkeypatch.setattr("swr.bench.running.jobs.LocalEngine", lambda workers: quick_engine(workers, crash_on_odd_seeds))
    code, out, err = swr("run quickstart --methods vanilla --seeds 2 --epochs-scale 0.02 --workers 1")
    assert code == 1
    assert "1 of 2 runs failed" in err
    assert "ZeroDivisionError: the loss fell over" in err
    assert "vanilla" in out  # what is done is shown
    code, out, _ = swr("status")
    assert code == 0
    assert "seed 1  ZeroDivisionError: the loss fell over" in out
    assert "Traceback" in swr("status --errors")[1]


def test_quickstart_tells_the_gap_to_the_cold_start(swr):
    finished("swr.sqlite", experiments.expand("quickstart"), lambda c: 0.8 if c.cold else 0.7 + 0.01 * c.seed)
    code, out, _ = swr("quickstart")
    assert code == 0
    rows = {line.split("  ")[0]: line for line in out.splitlines()}
    assert "0.8000 ± 0.0000" in rows["vanilla (cold start)"]
    assert rows["SWR"].split() == ["SWR", "0.7100", "±", "0.0100", "-0.0900"]


def test_a_table_of_the_paper_stands_beside_ours(swr):
    finished("swr.sqlite", experiments.expand("generalization", columns=["mnist-mlp"]))
    code, out, _ = swr("run generalization --columns mnist-mlp")
    assert code == 0
    row = next(line for line in out.splitlines() if line.startswith("SWR"))
    assert "0.9000 ± 0.0000" in row
    assert "0.9822" in row


def test_a_sweep_names_the_best_on_what_it_selects_on(swr):
    options = "--column digits-mlp --method shrink-perturb --seeds 1 --epochs-scale 0.1"
    for select in ("validation", "test"):
        configs = experiments.sweep("warm-start", "digits-mlp", "shrink-perturb", seeds=1, epochs_scale=0.1, select=select)
        finished("swr.sqlite", configs, lambda c: dict(c.hyper)["coefficient"])
    with closing(sqlite3.connect("swr.sqlite", isolation_level=None)) as db:
        sql = "UPDATE metrics SET validation_accuracy = 1 - test_accuracy"
        db.execute(sql)
    assert swr(f"sweep warm-start {options}")[1].endswith("best: λ=0.2\n")
    assert swr(f"sweep warm-start {options} --select test")[1].endswith("best: λ=0.8\n")


def test_a_sweep_over_a_stream_selects_on_its_own_metric(swr):
    line = (
        "sweep permuted-pixels --column digits-mlp --method redo --seeds 100-101 --epochs-scale 0.01 --examples 64 --workers 1"
    )
    code, out, err = swr(f"{line} --grid threshold=0,0.1 --grid every=2")
    assert code == 0, err
    assert "selected on their average online accuracy" in out
    assert "best: " in out
    with Store("swr.sqlite") as store:
        tried = sorted((dict(record.config.hyper)["threshold"], record.config.seed) for record in store.runs())
    assert tried == [(0.0, 100), (0.0, 101), (0.1, 100), (0.1, 101)]


@pytest.mark.parametrize(
    ("grid", "sentence"),
    [
        ("--grid coefficient", "--grid wants NAME=VALUE,VALUE with numbers, found 'coefficient'"),
        ("--grid coefficient=a,b", "found 'coefficient=a,b': write coefficient=1e-3,1e-2"),
        ("--grid coefficient=1 --grid coefficient=2", "--grid has coefficient twice"),
        ("--grid bound=1,2", "its options are coefficient"),
    ],
)
def test_a_grid_that_is_none_is_refused(swr, grid, sentence):
    code, _, err = swr(f"sweep warm-start --column digits-mlp --method l2 {grid}")
    assert code == 2
    assert sentence in " ".join(err.split())


def test_seeds_and_examples_of_a_run_are_those_of_the_command(swr):
    line = "run generalization --columns digits-mlp --methods vanilla --epochs-scale 0.005 --workers 1"
    code, out, err = swr(f"{line} --seeds 100-101 --examples 200 --validation 0.1")
    assert code == 0, err
    assert "10 % of the training data held out, 200 training examples" in " ".join(out.split())
    with Store("swr.sqlite") as store:
        records = store.runs()
    assert {record.config.seed for record in records} == {100, 101}
    for record in records:
        assert (record.facts["train"], record.facts["validation"], record.facts["test"]) == (180, 20, 355)


@pytest.mark.parametrize("seeds", ["109-100", "5-", "five", "1-2-3"])
def test_seeds_that_are_none_are_refused(swr, seeds):
    code, _, err = swr(f"run generalization --columns digits-mlp --seeds {seeds}")
    assert code == 2
    assert "write 5 or 100-109" in err


def test_only_a_dry_run_trains_for_an_estimate(swr, monkeypatch):
    timed = []
    monkeypatch.setattr("swr.bench.running.estimate.Estimator.calibrate", lambda self, config, *_: timed.append(config))
    monkeypatch.setattr("swr.bench.running.jobs.LocalEngine", lambda workers: quick_engine(workers, pretend))
    line = "run generalization --columns digits-mlp --methods vanilla --seeds 1 --epochs-scale 0.02 --workers 1"
    assert swr(line)[0] == 0
    assert timed == []
    assert swr(f"{line} --store other.sqlite --dry-run")[0] == 0
    assert [config.column for config in timed] == ["digits-mlp"]
