import math
import random
import statistics as standard

import pytest
from scipy import stats

from swr.bench.report.statistics import deviation, paired, quantile, summary

RANDOM = random.Random(0)
SAMPLES = [[RANDOM.gauss(0.7, 0.01) for _ in range(n)] for n in (2, 3, 5, 10, 40)]


@pytest.mark.parametrize("values", SAMPLES)
def test_mean_deviation_and_interval_are_scipys(values):
    found = summary(values)
    assert found.mean == pytest.approx(standard.fmean(values))
    assert found.std == pytest.approx(standard.stdev(values))
    low, high = stats.t.interval(0.95, len(values) - 1, loc=found.mean, scale=stats.sem(values))
    assert found.interval == pytest.approx((low, high))
    assert found.interval[0] < found.mean < found.interval[1]


@pytest.mark.parametrize("values", SAMPLES)
def test_the_paired_test_is_scipys(values):
    others = [value + RANDOM.gauss(0.003, 0.01) for value in values]
    found = paired(dict(enumerate(values)), dict(enumerate(others)))
    expected = stats.ttest_rel(values, others)
    assert found.p == pytest.approx(expected.pvalue)
    assert found.difference == pytest.approx(standard.fmean(values) - standard.fmean(others))
    assert found.pairs == len(values)
    assert found.p != pytest.approx(stats.ttest_ind(values, others).pvalue), "pairs tell more than two heaps"


def test_by_hand():
    """Differences 1, 2, 3: mean 2, deviation 1, T = 2 √3, two degrees of freedom, where P(|T| > t) = 1 - t / √(2 + t²)."""
    found = paired({0: 1.0, 1: 2.0, 2: 3.0}, {0: 0.0, 1: 0.0, 2: 0.0})
    t = 2 * math.sqrt(3)
    assert found.p == pytest.approx(1 - t / math.sqrt(2 + t * t))
    assert quantile(1) == pytest.approx(math.tan(0.95 * math.pi / 2)), "Cauchy's distribution"


def test_only_seeds_that_both_have_are_compared():
    ours, others = {0: 0.7, 1: 0.8, 5: 0.1}, {1: 0.7, 5: 0.05, 0: 0.65, 9: 0.0}
    found = paired(ours, others)
    assert found.pairs == 3
    assert found.p == pytest.approx(stats.ttest_rel([0.7, 0.8, 0.1], [0.65, 0.7, 0.05]).pvalue)
    assert paired({0: 1.0}, {1: 1.0}) is None


def test_one_seed_has_a_mean_and_nothing_else():
    found = summary([0.5])
    assert (found.mean, found.std, found.interval) == (0.5, None, None)
    alone = paired({0: 0.5}, {0: 0.4})
    assert (alone.pairs, alone.p) == (1, None)
    assert alone.difference == pytest.approx(0.1)
    assert summary([]) is None


def test_equal_values_have_no_spread_and_a_certain_test():
    found = summary([0.1 + 0.2, 0.3, 0.3])
    assert found.std == pytest.approx(0, abs=1e-15)
    assert found.interval == pytest.approx((0.3, 0.3))
    same = dict.fromkeys(range(5), 0.7)
    assert paired(same, same).p == 1.0
    assert paired({0: 0.3, 1: 0.2, 2: 0.1}, {0: 0.2, 1: 0.1, 2: 0.0}).p == 0.0, "always 0.1 better, to the last bit or not"
    assert paired({0: 0.3, 1: 0.2}, {0: 0.2, 1: 0.1001}).p > 0


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_value_that_is_not_finite_leaves_everything_else_unknown(bad):
    found = summary([0.7, bad, 0.8])
    assert not math.isfinite(found.mean)
    assert (found.std, found.interval) == (None, None)
    test = paired({0: 0.7, 1: bad}, {0: 0.6, 1: 0.6})
    assert (test.p, test.pairs) == (None, 2)
    assert math.isnan(deviation([1.0, bad]))


@pytest.mark.parametrize("values", SAMPLES)
def test_the_interval_of_a_paired_difference_excludes_zero_when_p_is_small(values):
    others = [value + RANDOM.gauss(0.01, 0.01) for value in values]
    found = paired(dict(enumerate(values)), dict(enumerate(others)))
    low, high = stats.ttest_rel(values, others).confidence_interval(0.95)
    assert found.interval == pytest.approx((low, high))
    assert abs(found.sign) == (found.p < 0.05)
    assert found.effect == pytest.approx(found.difference / standard.stdev(found.differences.values()))
    turned = found.reversed()
    assert turned == paired(dict(enumerate(others)), dict(enumerate(values)))
    assert (turned.sign, turned.effect) == (-found.sign, -found.effect)


def test_bounds_hold_the_interval_and_leave_the_mean_alone():
    found = summary([1.0, 0.9, 1.0], (0.0, 1.0))
    assert found.interval[1] == 1.0
    assert found.mean == pytest.approx(2.9 / 3)
    assert found.interval[0] == pytest.approx(summary([1.0, 0.9, 1.0]).interval[0])
    assert summary([1.0, 0.9, 1.0]).interval[1] > 1


def test_one_pair_has_neither_interval_nor_effect_and_a_constant_lead_is_certain():
    alone = paired({0: 0.5}, {0: 0.4})
    assert (alone.interval, alone.effect, alone.sign) == (None, None, 0)
    assert paired({0: 0.3, 1: 0.2, 2: 0.1}, {0: 0.2, 1: 0.1, 2: 0.0}).effect > 1e6
    same = paired({0: 0.5, 1: 0.6}, {0: 0.5, 1: 0.6})
    assert (same.effect, same.sign) == (0.0, 0)
