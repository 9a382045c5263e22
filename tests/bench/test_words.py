"""Text for people."""

import pytest

from swr.bench.words import aligned, duration, plural, require, wrapped
from swr.errors import OptionError


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (59.6, "1 min 0 s"), (599, "9 min 59 s"), (601, "10 min"), (7200, "2 h 0 min"), (200_000, "2.3 days")],
)
def test_a_duration_has_as_many_units_as_matter(seconds, text):
    assert duration(seconds) == text


def test_one_is_singular_and_none_is_plural():
    assert [plural(number, "run") for number in (0, 1, 2)] == ["0 runs", "1 run", "2 runs"]


def test_a_value_that_is_not_as_wanted_is_named():
    with pytest.raises(OptionError, match=r"seed must be at least 0, found -1\."):
        require(False, "seed", "at least 0", -1)


ROWS = [["name", "n", "about"], ["warm-start", "5", "half of the data, then all of it, and so on"], ["lr-decay", "", "short"]]


def test_a_table_that_fits_is_not_wrapped():
    assert len(aligned(ROWS, width=80).splitlines()) == 4


def test_a_table_that_is_too_wide_is_wrapped_between_words_and_loses_nothing():
    text = aligned(ROWS, width=45)
    assert max(map(len, text.splitlines())) == 45
    assert [line.split()[0] for line in text.splitlines() if not line.startswith(" ")] == [
        "name",
        "─" * 45,
        "warm-start",
        "lr-decay",
    ]
    assert sorted(text.replace("─" * 45, "").split()) == sorted(word for row in ROWS for cell in row for word in cell.split())


def test_numbers_are_never_wrapped():
    rows = [["", "MNIST (MLP)"], ["vanilla with a long name of its own", "0.9822 ± 0.0009 (n=5)"]]
    assert "0.9822 ± 0.0009 (n=5)" in aligned(rows, width=50)


def test_a_wide_table_is_divided_where_it_may_be_with_the_first_column_in_each_part():
    rows = [["", "MNIST", "paper", "CIFAR", "paper"], ["swr", "0.9822 ± 0.0009", "0.98", "0.7185 ± 0.0009", "0.71"]]
    assert len(aligned(rows, starts=(1, 3), width=80).splitlines()) == 3
    first, second = aligned(rows, starts=(1, 3), width=40).split("\n\n")
    assert first.splitlines()[2].split("  ") == ["swr", "0.9822 ± 0.0009", "0.98"]
    assert second.splitlines()[0].split() == ["CIFAR", "paper"]
    assert second.splitlines()[2].startswith("swr  0.7185")


def test_text_is_wrapped_between_words_only():
    assert wrapped("continual-backprop replaces units", "  ", "    ", width=20) == "  continual-backprop\n    replaces units"


def test_the_width_is_that_of_the_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "45")
    assert aligned(ROWS) == aligned(ROWS, width=45)
