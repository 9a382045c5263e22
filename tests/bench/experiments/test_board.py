"""The leaderboard as data."""

import pytest
import torch

from swr import methods
from swr.bench.experiments import models
from swr.bench.experiments.board import COMPOSITIONS, LEFT_OUT, PLACES, REPORTED, TUNING, Row, fresh, places, references, rows
from swr.bench.experiments.run_description import command
from swr.errors import OptionError, SWRError
from swr.methods.tools.tuning import MOST


def test_every_registered_method_has_a_row_or_a_reason():
    assert {row.method for row in rows()} == {*methods.names(), *COMPOSITIONS} - {"vanilla", *LEFT_OUT}
    assert len({row.name for row in rows()}) == len(rows())


def test_no_row_tries_more_than_the_others_may():
    assert max(len(row.points) for row in rows()) == MOST
    untuned = [row for row in rows() if row.untuned]
    assert [(row.name, row.title, row.grid(places()[0])) for row in untuned] == [
        ("swr-budget-untuned", "SWR, budget 1.5, untuned", [])
    ]


@pytest.mark.parametrize("name", COMPOSITIONS)
def test_compositions_can_be_built_with_all_their_configurations(name):
    [row] = [row for row in rows([name]) if row.method == name]
    assert row.points
    for point in row.points:
        assert methods.build(name, models.build("mlp", (1, 8, 8), 10), torch.randn(2, 1, 8, 8), seed=0, **dict(point))


def test_nothing_is_reported_on_a_seed_that_something_was_chosen_on():
    growth = {*range(100, 102), *range(200, 210)}
    assert not set(REPORTED) & {*TUNING, *growth}
    assert not set(TUNING) & growth
    with pytest.raises(OptionError, match="seed 150 is one that hyper-parameters are chosen on"):
        places(seeds=[149, 150])


def test_seeds_streams_and_scale_can_be_chosen():
    [place] = places(["limited"], seeds=3, scale=0.5)
    assert (place.reported, place.scale, place.examples) == ((300, 301, 302), 0.1, 6000)
    assert [one.name for one in places(["random-labels", "permuted-pixels"])] == ["permuted-pixels", "random-labels"]
    assert places(seeds=range(7, 9))[0].reported == (7, 8)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: rows(["l2init"]), "there is no row of the leaderboard 'l2init': did you mean l2-init?"),
        (lambda: rows(["vanilla"]), "vanilla has no row of its own: it is what the others are measured against"),
        (lambda: rows(["swr-reinit"]), "swr-reinit has no row of its own: it acts when the learning rate falls"),
        (lambda: places(["permuted"]), "there is no stream of the leaderboard 'permuted'"),
        (lambda: places(seeds=0), "the number of seeds must be at least 1"),
    ],
)
def test_what_is_not_on_the_board_is_refused_with_a_sentence(call, sentence):
    with pytest.raises(SWRError) as error:
        call()
    assert sentence in str(error.value)


def test_an_average_that_is_only_evaluated_is_not_run_where_training_itself_is_judged():
    ema, both, budget = (Row(name, ((),)) for name in ("ema", "swr-budget+ema", "swr-budget"))
    assert [row.runs_in(PLACES["permuted-pixels"]) for row in (ema, both, budget)] == [False, False, True]
    assert all(row.runs_in(PLACES["warm-start"]) for row in (ema, both, budget))


def test_the_fresh_network_is_new_for_every_task_or_a_cold_start():
    assert [fresh(place) for place in PLACES.values()] == ["full-reset"] * 3 + ["cold"] * 2
    found = references(PLACES["warm-start"], tune=True)
    assert [(line, one.cold, one.seed, one.validation) for line, [one] in found.items()] == [
        ("vanilla", False, 150, 0.1),
        ("cold", True, 150, 0.1),
    ]


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.name)
def test_every_cell_has_a_command_that_repeats_it(row):
    for place in PLACES.values():
        for point in row.points:
            text = command(row.reported(place, point)[0], place.reported)
            assert text is not None, point
            assert "--seeds 300-304" in text
