"""The command that runs and writes the leaderboard."""

import shlex

import pytest
from boards import fill, plausible
from job_tasks import quick_engine

from swr.bench.cli.leaderboard_command import steps
from swr.bench.experiments.board import PLACES, places, rows
from swr.bench.running.engines import worker
from swr.bench.store import Store

TINY = "--streams permuted-pixels --methods l2-init fire --seeds 2 --epochs-scale 0.02"


def test_help_teaches_with_examples(swr):
    code, out, _ = swr("leaderboard --help")
    assert code == 0
    assert "swr leaderboard --dry-run" in out
    assert all(name in out for name in PLACES)
    assert "leaderboard" in swr("--help")[1]


def test_from_two_methods_on_a_tiny_stream_to_the_page_and_back_from_its_files(swr, folder, monkeypatch):
    monkeypatch.setattr("swr.bench.running.jobs.LocalEngine", lambda workers: quick_engine(workers, worker.train))
    code, out, err = swr(f"leaderboard {TINY} --workers 1")
    assert code == 0, err
    assert err.count("✓") == 6 + 5 + 4, "references on three seeds, five configurations, two rows on two seeds"
    assert "L2 Init" in out
    code, _, err = swr(f"leaderboard {TINY} --workers 1")
    assert code == 0
    assert "✓" not in err, "what is finished is not run again"

    (folder / "docs").mkdir()
    code, out, err = swr(f"leaderboard {TINY} --report")
    assert (code, err) == (0, "")
    assert out == "docs/leaderboard.md, leaderboard.html: 2 rows in 1 place\n"
    page, text = (folder / "leaderboard.html").read_bytes(), (folder / "docs" / "leaderboard.md").read_bytes()
    assert swr("export -o files --last")[0] == 0
    assert swr("import files --store again.sqlite")[0] == 0
    assert swr(f"leaderboard {TINY} --report --store again.sqlite -o again.html")[0] == 0
    assert (folder / "again.html").read_bytes() == page
    assert (folder / "docs" / "leaderboard.md").read_bytes() == text

    commands = [line.split("`")[1] for line in text.decode().splitlines() if "`swr run" in line and "L2 Init" in line]
    [command] = commands
    with Store(folder / "swr.sqlite") as store:
        before = {record.id: record.last for record in store.runs() if record.config.method == "l2-init"}
    code, _, err = swr(f"{' '.join(shlex.split(command)[1:])} --store cell.sqlite --workers 1")
    assert code == 0, err
    with Store(folder / "cell.sqlite") as store:
        repeated = {record.id: record.last for record in store.runs()}
    assert len(repeated) == 2
    for run, last in repeated.items():
        assert last.measures == before[run].measures
        assert last.norms == before[run].norms


def test_the_dry_run_counts_runs_and_hours_and_creates_nothing(swr, folder):
    code, out, err = swr("leaderboard --dry-run --methods l2-init fire")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert [line.split()[:4] for line in lines[2:5]] == [[name, "2", "27", "27"] for name in list(PLACES)[:3]]
    assert "core hours" in lines[-1]
    assert list(folder.iterdir()) == []


def test_a_place_begins_with_its_references_and_tunes_before_it_reports(tmp_path):
    [place] = places(["permuted-pixels"], seeds=2)
    chosen = rows(["l2-init", "fire"])
    with Store(tmp_path / "s") as store:
        fill(store, place, chosen, plausible)
    found = list(steps(place, chosen, tmp_path / "s"))
    assert [title for title, _ in found] == [
        "permuted-pixels, references",
        "permuted-pixels, rows 1-2 of 2, tuning",
        "permuted-pixels, rows 1-2 of 2",
    ]
    assert [len(configs) for _, configs in found] == [6, 5, 4]
    assert {config.seed for _, configs in found[1:2] for config in configs} == {150}
    assert {config.seed for config in found[2][1]} == {300, 301}
    assert [dict(c.hyper) for c in found[2][1] if c.method == "l2-init"] == [{"coefficient": 0.01}] * 2


def test_a_row_whose_grid_is_not_finished_is_not_reported(tmp_path):
    [place] = places(["permuted-pixels"], seeds=2)
    *_, (title, configs) = steps(place, rows(["l2-init", "fire"]), tmp_path / "missing")
    assert title == "permuted-pixels, rows 1-2 of 2"
    assert {config.method for config in configs} == {"fire"}


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("leaderboard --methods nothing", "there is no row of the leaderboard 'nothing'"),
        ("leaderboard --streams digits", "there is no stream of the leaderboard 'digits'"),
        ("leaderboard --report", "the folder docs of leaderboard.md does not exist: name another file with --markdown"),
        ("leaderboard --report --markdown board.md", "there is no store at swr.sqlite"),
    ],
)
def test_mistakes_are_one_sentence(swr, folder, line, sentence):
    code, _, err = swr(line)
    assert code == 2
    assert sentence in err
    assert len(err.splitlines()) == 1
