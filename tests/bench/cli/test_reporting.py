import os
import signal
import socket
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest
from job_tasks import config
from stores import HERE, SCRIPT, finished, first_schema, make

from swr.bench import experiments
from swr.bench.cli.reporting import page_of
from swr.bench.running.jobs import Outcome
from swr.bench.store import Store
from swr.bench.store.schema import SCHEMA


@pytest.mark.parametrize("command", ["report", "export", "import"])
def test_help_teaches_with_examples(swr, command):
    code, out, _ = swr(f"{command} --help")
    assert code == 0
    assert f"Examples:\n  swr {command}" in out
    assert command in swr("--help")[1]


def test_a_report_is_one_page_beside_the_store(swr, folder):
    make(folder / "swr.sqlite", runs=30, epochs=4, hostile=True)
    code, out, err = swr("report")
    assert (code, err) == (0, "")
    assert out.startswith("swr.html: 34 runs, ")
    page = (folder / "swr.html").read_text()
    assert "CIFAR-10 (CNN)" in page
    assert SCRIPT not in page, "it is shown, not run"
    assert swr("report -o other.html")[:2] == (0, out.replace("swr.html", "other.html"))
    assert (folder / "other.html").exists()


@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
def test_charts_as_files(swr, folder, kind):
    finished("swr.sqlite", experiments.expand("generalization", columns=["mnist-mlp"], seeds=1, methods=["vanilla", "swr"]))
    code, out, err = swr(f"report --{kind} figures")
    assert code == 0, err
    files = list((folder / "figures").iterdir())
    assert files
    assert all(path.suffix == f".{kind}" and path.stat().st_size > 1000 for path in files)
    assert out.splitlines()[-1] == f"figures: {len(files)} chart{'s' * (len(files) > 1)} as {kind.upper()}"


def empty():
    Store("swr.sqlite").close()


def newer():
    finished("swr.sqlite", [config()])
    with closing(sqlite3.connect("swr.sqlite")) as db:
        db.execute(f"PRAGMA user_version = {SCHEMA + 1}")


def corrupt():
    finished("swr.sqlite", [config(seed) for seed in range(100)])
    with open("swr.sqlite", "r+b") as file:  # noqa: PTH123
        file.seek(4096)
        file.write(b"\x5a" * 20000)


def truncated():
    finished("swr.sqlite", [config(seed) for seed in range(100)])
    os.truncate("swr.sqlite", 8192)


def text():
    with open("swr.sqlite", "w") as file:  # noqa: PTH123
        file.write("my thesis\n" * 100)


@pytest.mark.parametrize(
    ("make_it", "sentence"),
    [
        (lambda: None, "there is no store at swr.sqlite"),
        (empty, "swr.sqlite holds no runs: `swr run` adds some"),
        (newer, f"was written by a newer swr (schema {SCHEMA + 1}, this one knows {SCHEMA}): update swr"),
        (corrupt, "swr.sqlite is damaged"),
        (truncated, "swr.sqlite is damaged"),
        (text, "is not a store (not an SQLite file)"),
    ],
)
def test_a_store_that_cannot_be_reported_on_is_one_sentence_and_code_2(swr, folder, make_it, sentence):
    make_it()
    code, out, err = swr("report")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert sentence in err
    assert not (folder / "swr.html").exists()


@pytest.mark.parametrize(
    ("make_it", "sentence"), [(newer, "newer swr"), (corrupt, "is damaged"), (truncated, "is damaged"), (text, "not a")]
)
def test_such_a_store_is_neither_exported_nor_imported(swr, folder, make_it, sentence):
    make_it()
    if make_it is not text:
        code, out, err = swr("export -o files")
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert sentence in err
        assert not list(folder.glob("files/*"))
    code, out, err = swr("import swr.sqlite --store other.sqlite")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert sentence in err or "no SQLite file" in err


def test_an_older_store_is_reported_on(swr, folder):
    first_schema(folder / "swr.sqlite")
    code, out, _ = swr("report")
    assert code == 0
    assert out.startswith("swr.html: 1 run,")
    assert "0.8750" in (folder / "swr.html").read_text()


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("report -o swr.sqlite", "the page swr.sqlite would replace the store"),
        ("report -o nowhere/x.html", "the folder nowhere of the page x.html does not exist"),
        ("report -o .", "is a folder: name a file for the page"),
        ("report --markdown nowhere/x.md", "the folder nowhere of the Markdown x.md does not exist"),
        ("report --markdown .", "is a folder: name a file for the Markdown"),
        ("report --markdown note.txt", "does not say where the report goes"),
        ("report --port 70000", "--port must be from 0 to 65535, found 70000"),
        ("report --watch --store note.txt", "is not a store (not an SQLite file)"),
        ("import nowhere", "there is nothing at nowhere"),
        ("import swr.sqlite", "is the store itself"),
        ("export -o swr.sqlite", "swr.sqlite is a file: name a folder"),
    ],
)
def test_wrong_usage_is_one_sentence_and_code_2(swr, folder, line, sentence):
    finished("swr.sqlite", [config()])
    (folder / "note.txt").write_text("my thesis\n" * 100)
    code, out, err = swr(line)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert sentence in err
    assert not (folder / "swr.html").exists()


def test_watching_serves_the_page_of_a_store_that_is_there_or_will_be(swr, folder, monkeypatch):
    served = []
    monkeypatch.setattr("swr.bench.report.watch.serve", lambda *arguments: served.append(arguments))
    assert swr("report --watch")[0] == 0
    finished("swr.sqlite", [config()])
    assert swr("report --watch --port 0 -o live.html")[0] == 0
    assert served == [(Path("swr.sqlite"), Path("swr.html"), 8765), (Path("swr.sqlite"), Path("live.html"), 0)]


def test_a_port_that_is_taken_is_one_sentence(swr):
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        code, out, err = swr(f"report --watch --port {port}")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"port {port} of this machine cannot be used" in err
    assert "name another with --port, 0 for any that is free" in err


def test_export_and_import_tell_what_they_did(swr):
    finished("swr.sqlite", [config(0, epochs=1), config(1, epochs=1)])
    assert swr("export -o files")[:2] == (
        0,
        "2 runs and 2 epochs of swr.sqlite are in files: runs.csv, metrics.csv, norms.csv, measures.csv\n",
    )
    finished("other.sqlite", [config(1, epochs=1)])
    assert swr("import files --store other.sqlite")[:2] == (
        0,
        "files -> other.sqlite: 1 run added, 0 completed, 1 known already\n",
    )
    assert swr("import other.sqlite")[1] == "other.sqlite -> swr.sqlite: 0 runs added, 0 completed, 2 known already\n"


@pytest.mark.parametrize(
    "line",
    [
        "run quickstart --methods vanilla --seeds 1",
        "quickstart",
        "sweep warm-start --column digits-mlp --method shrink-perturb --seeds 1",
    ],
)
def test_an_experiment_ends_with_the_page(swr, folder, line):
    finished("swr.sqlite", experiments.expand("quickstart"))
    finished("swr.sqlite", experiments.sweep("warm-start", "digits-mlp", "shrink-perturb", seeds=1))
    code, _, err = swr(line)
    assert code == 0
    assert err.endswith("report: swr.html\n")
    assert "digits (MLP)" in (folder / "swr.html").read_text()


def test_a_page_that_cannot_be_written_is_a_sentence_and_the_runs_are_a_success(swr, folder):
    finished("swr.sqlite", experiments.expand("quickstart", methods=["vanilla"], seeds=1))
    (folder / "swr.html").mkdir()
    code, out, err = swr("run quickstart --methods vanilla --seeds 1")
    assert code == 0
    assert "0.9000" in out
    sentence = err.splitlines()[-1]
    assert sentence.startswith("swr: the report swr.html could not be written (")
    assert sentence.endswith("the results are safe in swr.sqlite, and `swr report --store swr.sqlite` tries again")


def test_a_failed_run_is_on_the_page(swr, folder, monkeypatch):
    (failing,) = experiments.expand("quickstart", methods=["vanilla"], seeds=1)
    with Store("swr.sqlite") as store:
        store.add([failing], HERE)
        store.fail(failing.identity, "Traceback\nZeroDivisionError: the loss fell over")
    monkeypatch.setattr("swr.bench.cli.run_commands.execute", lambda *_, **__: Outcome(failed=[(failing, "it fell over")]))
    code, _, err = swr("run quickstart --methods vanilla --seeds 1")
    assert code == 1
    assert err.endswith("report: swr.html\n")
    assert "the loss fell over" in (folder / "swr.html").read_text()


def test_after_ctrl_c_there_is_a_page_on_what_is_done(swr, folder, monkeypatch):
    finished("swr.sqlite", experiments.expand("quickstart", methods=["vanilla"], seeds=1))
    monkeypatch.setattr("swr.bench.cli.run_commands.execute", lambda *_, **__: Outcome(signal=signal.SIGINT))
    code, out, err = swr("run quickstart --methods vanilla --seeds 1")
    assert (code, out) == (130, "")
    assert err.endswith("To continue: swr run quickstart --methods vanilla --seeds 1\nreport: swr.html\n")
    assert (folder / "swr.html").exists()


def test_after_ctrl_c_before_anything_is_done_there_is_none(swr, folder, monkeypatch):
    with Store("swr.sqlite") as store:
        store.add(experiments.expand("quickstart", methods=["vanilla"], seeds=1), HERE)
    monkeypatch.setattr("swr.bench.cli.run_commands.execute", lambda *_, **__: Outcome(signal=signal.SIGINT))
    code, _, err = swr("run quickstart --methods vanilla --seeds 1")
    assert code == 130
    assert "report" not in err
    assert not (folder / "swr.html").exists()


def test_the_page_never_takes_the_place_of_a_store(folder):
    assert page_of(folder / "results.sqlite") == folder / "results.html"
    assert page_of(folder / "results.html") == folder / "results.html.html"


@pytest.mark.parametrize("module", ["altair", "jinja2", "vl_convert"])
def test_without_what_a_page_needs_a_sentence_says_what_to_install(swr, monkeypatch, module):
    finished("swr.sqlite", [config()])
    monkeypatch.setitem(sys.modules, module, None)
    for part in ("page", "inline"):  # as if they had not been imported before
        monkeypatch.delitem(sys.modules, f"swr.bench.report.{part}", raising=False)
        monkeypatch.delattr(f"swr.bench.report.{part}", raising=False)
    needed = f"swr: the command line needs {module}, which is not installed: pip install 'soft-weight-rescaling[bench]'\n"
    assert swr("report") == (2, "", needed)


def test_a_part_of_a_package_is_named_by_the_package(swr, monkeypatch):
    def perform(*_, **__):
        raise ModuleNotFoundError("no", name="scipy.special")

    monkeypatch.setattr("swr.bench.cli.commands.perform", perform)
    assert "needs scipy, which is not installed" in swr("report")[2]
