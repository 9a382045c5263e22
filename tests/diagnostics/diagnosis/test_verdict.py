"""From curves to a verdict."""

import math

import pytest

from diagnostics.diagnosis.known import curve
from swr.diagnostics.diagnosis.trial import Curve
from swr.diagnostics.diagnosis.verdict import compare

JITTER = (0.0, 0.01, -0.01, 0.005)


def curves(end, reached=0.5, start=2.0, jitter=JITTER):
    return [curve(start, end + each, reached=reached) for each in jitter]


def verdict(trained, fresh):
    return compare({1e-3: trained}, {1e-3: fresh})


@pytest.mark.parametrize(
    ("trained", "expected"),
    [
        (curves(0.2), "none"),
        (curves(0.0), "none"),  # ahead
        (curves(0.25), "none"),  # behind by less than a tenth of the progress 1.8
        (curves(0.6), "some"),
        (curves(1.5), "lost"),
        (curves(0.2, reached=0.9), "some"),  # level in the end, but late
        (curves(0.4, jitter=(0.8, -0.4, -0.3, -0.2)), "unclear"),
    ],
)
def test_verdicts(trained, expected):
    assert verdict(trained, curves(0.2, jitter=JITTER[::-1])).verdict == expected


def test_a_gap_that_a_fresh_network_can_have_by_luck_is_unclear():
    """In every pair it is 0.5 behind, but fresh networks themselves differ by as much."""
    found = verdict(curves(0.7, jitter=(0.3, -0.3, 0.2, -0.2)), curves(0.2, jitter=(0.3, -0.3, 0.2, -0.21)))
    assert found.gap.low > 0
    assert (found.behind, found.verdict) == (False, "unclear")


def test_nothing_can_be_said_if_fresh_networks_do_not_learn():
    found = verdict(curves(2.0), curves(2.0))
    assert (found.learned, found.verdict) == (False, "unclear")


def test_the_gap_is_paired():
    """Pairs that share a large variation have a narrow interval."""
    shared = (0.5, 0.0, -0.2, 0.3)
    found = verdict(curves(0.8, jitter=shared), curves(0.5, jitter=shared))
    assert found.gap.mean == pytest.approx(0.3, abs=1e-6)
    assert found.gap.half < 1e-6
    assert found.gap.n == 4


def test_each_network_is_judged_at_its_own_best_learning_rate():
    trained = {1e-3: curves(0.2), 1e-2: curves(1.5)}
    fresh = {1e-3: curves(1.0), 1e-2: curves(0.2)}
    found = compare(trained, fresh)
    assert (found.lr_trained, found.lr_fresh, found.verdict) == (1e-3, 1e-2, "none")
    assert [(at.lr, round(at.trained, 1), round(at.fresh, 1)) for at in found.rates] == [(1e-3, 0.2, 1.0), (1e-2, 1.5, 0.2)]


def test_a_network_that_diverges_at_every_rate_has_lost_plasticity():
    broken = [Curve((2.0,) * 50 + (math.nan,) * 50, {})] * 4
    found = verdict(broken, curves(0.2))
    assert (found.gap.mean, found.verdict) == (math.inf, "lost")


def test_a_network_that_diverges_at_one_rate_is_judged_at_the_other():
    broken = [Curve((2.0,) * 50 + (math.nan,) * 50, {})] * 4
    found = compare({1e-3: curves(0.2), 1e-1: broken}, {1e-3: curves(0.2), 1e-1: broken})
    assert (found.lr_trained, found.lr_fresh, found.verdict) == (1e-3, 1e-3, "none")


def test_the_slowdown_counts_steps():
    found = verdict(curves(0.2, reached=0.8), curves(0.2, reached=0.4))
    assert math.exp(found.slowdown.mean) == pytest.approx(2, rel=0.1)
    assert found.arrived
    assert not verdict(curves(1.5), curves(0.2)).arrived
