"""Intervals without SciPy, against SciPy."""

import math

import pytest

from swr.diagnostics.diagnosis.intervals import interval, t_975


@pytest.mark.parametrize("freedom", [1, 2, 4, 10, 30, 31, 50, 200])
def test_the_points_of_students_distribution_are_scipys(freedom):
    stats = pytest.importorskip("scipy.stats")
    assert t_975(freedom) == pytest.approx(stats.t.ppf(0.975, freedom), abs=2e-4)


def test_an_interval_is_scipys():
    stats = pytest.importorskip("scipy.stats")
    values = [0.3, 0.1, 0.4, 0.15, 0.9]
    low, high = stats.t.interval(0.95, 4, loc=sum(values) / 5, scale=stats.sem(values))
    found = interval(values)
    assert (found.low, found.high) == (pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4))


def test_one_value_says_nothing_and_an_infinite_one_wins():
    assert interval([1.0]).half == math.inf
    assert interval([1.0, math.inf]).mean == math.inf
