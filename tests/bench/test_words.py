"""Text for people."""

import pytest

from swr.bench.words import duration, plural, require
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
