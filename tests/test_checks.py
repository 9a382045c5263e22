"""Checks of options: what passes comes back as a number, what does not is an error that says what was wanted and found."""

from math import inf, nan

import pytest

from swr import checks
from swr.errors import OptionError

CASES = {
    "at_least_zero": (checks.at_least_zero, [0, 0.5, 1e9], [-1e-9, inf, nan, True, "1", None], "a number, at least 0"),
    "finite": (checks.finite, [-3, 0, 2.5], [inf, -inf, nan, False, "a"], "a number"),
    "positive": (checks.positive, [1e-9, 3, inf], [0, -1, nan, True, None], "a number above 0"),
    "fraction": (checks.fraction, [0, 0.3, 1], [-0.1, 1.1, nan, True, "0"], "a number between 0 and 1"),
    "whole": (checks.whole, [1, 7, 3.0], [0, 1.5, inf, nan, True], "a whole number, at least 1"),
    "interval": (checks.interval, [1, 10, inf], [0, 1.5, nan, True, "1"], "a number of steps, 1 or more"),
}


@pytest.mark.parametrize("name", CASES)
def test_numbers_in_range_come_back_and_others_are_refused(name: str):
    check, right, wrong, wanted = CASES[name]
    for value in right:
        assert check(value, "rate ρ") == value
    for value in wrong:
        with pytest.raises(OptionError) as error:
            check(value, "rate ρ")
        assert str(error.value).startswith(f"rate ρ must be {wanted}")
        assert str(error.value).endswith(f"found {value!r}.")


def test_limits_are_part_of_the_sentence():
    assert checks.at_least(1, "p", 1) == 1
    with pytest.raises(OptionError, match=r"p must be a number, at least 1, found 0\.5\."):
        checks.at_least(0.5, "p", 1)
    with pytest.raises(OptionError, match=r"ratio c must be a number above 0, found inf\."):
        checks.positive(inf, "ratio c", infinite=False)
    assert checks.whole(0, "m", 0) == 0


def test_a_choice_is_one_of_the_known_values_and_of_their_type():
    checks.choice("sum", "reduction", ("sum", "mean"))
    with pytest.raises(OptionError, match=r"reduction must be 'sum' or 'mean', found 'max'\."):
        checks.choice("max", "reduction", ("sum", "mean"))
    with pytest.raises(OptionError):
        checks.choice(True, "p", (1.0, 2.0))
