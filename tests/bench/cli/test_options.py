"""Help texts."""

import itertools
import subprocess
import sys

import pytest

from swr.bench.cli import listing
from swr.bench.cli.options import COMMANDS
from swr.bench.experiments import COLUMNS, experiments


@pytest.mark.parametrize("line", ["", "--help", "run --help", "sweep --help", "status --help", "data --help", "explain --help"])
def test_help_teaches_with_examples(swr, line):
    code, out, _ = swr(line)
    assert code == 0
    assert "Examples:\n  swr " in out


def test_every_experiment_and_column_is_in_the_help_of_run(swr):
    _, out, _ = swr("run --help")
    for name, experiment in experiments().items():
        assert f"  {name} " in out
        assert experiment.about.split()[0] in out
    for name in COLUMNS:
        assert f"  {name} " in out


@pytest.mark.parametrize(
    "line", [*([name] for name in COMMANDS), [], ["data", "list"], ["data", "download"], ["data", "check"]]
)
def test_help_fits_80_columns_and_shows_what_a_person_would_type(swr, monkeypatch, line):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = swr(" ".join([*line, "--help"]))
    assert code == 0
    assert [text for text in out.splitlines() if len(text) > 80] == []
    for internal in ("{None}", "INT", "STR", "FLOAT", "PATH]", "[*", "(default: )", "{quickstart"):
        assert internal not in out.replace("folder:PATH", "")


@pytest.mark.parametrize("name", COMMANDS)
def test_sentences_of_the_help_are_filled_to_their_width(swr, monkeypatch, name):
    """A line break of the source would stand in the middle of a sentence."""
    monkeypatch.setenv("COLUMNS", "80")
    _, out, _ = swr(f"{name} --help")
    boxed = [line.strip("│").rstrip() for line in out.splitlines() if line.startswith("│")]
    for line, after in itertools.pairwise(boxed):
        indent = len(after) - len(after.lstrip())
        if line.startswith(" " * 6) and after.startswith(" " * 6) and line[indent : indent + 1].strip():
            assert len(line) + 1 + len(after.split()[0]) > 77, (line, after)


@pytest.mark.parametrize("width", [60, 120])
def test_help_follows_the_terminal(swr, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    _, out, _ = swr("quickstart --help")
    assert 50 < max(map(len, out.splitlines())) <= width


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("run warm-start --seeds many", "--seeds wants a number, or the first and the last, found 'many'"),
        ("run warm-start --epochs-scale a", "must be a number, found 'a'"),
        ("quickstart --workers 1.5", "must be a whole number, found '1.5'"),
        ("report --port http", "must be a whole number, found 'http'"),
        ("run warm-start --inputs grey", "invalid choice 'grey'"),
    ],
)
def test_a_wrong_value_is_said_in_words(swr, monkeypatch, line, sentence):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, err = swr(line)
    assert (code, out) == (2, "")
    assert sentence in " ".join(err.replace("│", " ").split())
    assert not any(word in err for word in ("class", "None", "instantiate", "literal", "Traceback"))


def test_a_command_that_is_none_is_corrected(swr):
    code, out, err = swr("statsu --store x")
    assert (code, out) == (2, "")
    assert err.startswith("swr: there is no command 'statsu': did you mean status? known are quickstart, run, ")
    assert err.count("\n") == 1


def test_the_list_of_experiments_and_columns_is_up_to_date():
    command = "python -m swr.bench.cli.listing > src/swr/bench/cli/listing.txt"
    assert listing.FILE.read_text(encoding="utf-8") == listing.listing(), command


@pytest.mark.parametrize("line", ["--version", "--help", "run --help", "data list --help", "run x --sedes 3", "nothing"])
def test_what_needs_no_network_does_not_import_torch(line):
    script = f"""
import sys
from swr.bench.cli import main
try:
    main({line.split()!r})
except SystemExit:
    heavy = ("torch", "numpy", "rich", "PIL", "scipy", "sklearn", "altair", "pooch", "sqlite3")
    print([name for name in heavy if name in sys.modules], file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "[]"
    assert done.stdout or "--sedes" in done.stderr or "no command" in done.stderr


def test_parsing_the_command_line_imports_its_options_only():
    script = "import sys, swr.bench.cli.options; print(*sorted(m for m in sys.modules if m.startswith('swr.bench')))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    own = ["entry", "listing", "narrow", "option_types", "options", "texts"]
    assert done.stdout.split() == ["swr.bench", "swr.bench.cli", *(f"swr.bench.cli.{name}" for name in own), "swr.bench.words"]
