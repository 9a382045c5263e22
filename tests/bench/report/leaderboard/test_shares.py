"""The share of the lost plasticity, and its intervals."""

import itertools

import numpy as np
import pytest

from swr.bench.report.leaderboard.shares import DRAWS, draws, interval, is_lost, ranks, resampled, share

VANILLA = {300: 0.40, 301: 0.50, 302: 0.45}
FRESH = {300: 0.80, 301: 0.80, 302: 0.85}
METHOD = {300: 0.60, 301: 0.80, 302: 0.65}


def test_plain_training_recovers_nothing_and_the_fresh_network_everything():
    assert share(VANILLA, VANILLA, FRESH) == 0
    assert share(FRESH, VANILLA, FRESH) == pytest.approx(1)
    assert share(METHOD, VANILLA, FRESH) == pytest.approx((0.2 + 0.3 + 0.2) / (0.4 + 0.3 + 0.4))


def test_every_draw_is_the_share_of_the_seeds_it_drew():
    found = resampled(METHOD, VANILLA, FRESH, "a stream")
    seeds = sorted(METHOD)
    for drawn, chosen in zip(found, draws(3, "a stream"), strict=True):
        names = [seeds[place] for place in chosen]
        gained = sum(METHOD[seed] - VANILLA[seed] for seed in names)
        assert drawn == pytest.approx(gained / sum(FRESH[seed] - VANILLA[seed] for seed in names))


def test_the_interval_is_close_to_that_of_all_possible_draws():
    vanilla, fresh = ({seed: value + 0.01 * seed for seed in range(5)} for value in (0.4, 0.8))
    method = {seed: 0.5 + 0.04 * seed for seed in range(5)}
    all_of_them = []
    for names in itertools.product(method, repeat=5):
        gained = sum(method[seed] - vanilla[seed] for seed in names)
        all_of_them.append(gained / sum(fresh[seed] - vanilla[seed] for seed in names))
    low, high = interval(resampled(method, vanilla, fresh, "s"))
    assert low == pytest.approx(np.quantile(all_of_them, 0.025), abs=0.02)
    assert high == pytest.approx(np.quantile(all_of_them, 0.975), abs=0.02)
    assert low < share(method, vanilla, fresh) < high


def test_draws_are_fixed_and_differ_between_streams():
    assert draws(5, "a").shape == (DRAWS, 5)
    assert draws(5, "a")[0].tolist() == [3, 2, 4, 0, 0]
    assert (draws(5, "a") != draws(5, "b")).any()
    assert set(np.unique(draws(5, "a"))) == {0, 1, 2, 3, 4}


@pytest.mark.parametrize(
    ("vanilla", "fresh", "answer"),
    [
        (VANILLA, FRESH, True),
        (FRESH, VANILLA, False),
        ({1: 0.5, 2: 0.5, 3: 0.5}, {1: 0.51, 2: 0.49, 3: 0.51}, False),
        ({1: 0.5, 2: 0.5, 3: 0.5, 4: 0.5, 5: 0.5}, {1: 0.9, 2: 0.9, 3: 0.9, 4: 0.9, 5: 0.49}, False),
        ({1: 0.5}, {1: 0.9}, False),
    ],
)
def test_lost_is_what_every_seed_and_the_interval_say(vanilla, fresh, answer):
    assert is_lost(vanilla, fresh) is answer


def test_equal_rows_share_a_rank():
    assert ranks([np.array([0.5]), np.array([0.9]), np.array([0.5])]).tolist() == [[2], [1], [2]]
