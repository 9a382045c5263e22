"""What the runs of a store say about every row."""

import math
from dataclasses import replace

import pytest
from boards import add, fail, fill, plausible

from swr.bench.experiments.board import places, references, rows
from swr.bench.report.leaderboard.shares import share
from swr.bench.report.leaderboard.standings import Failure, board
from swr.bench.report.selection import ended, finished
from swr.bench.store import Store

PIXELS, LABELS = places(["permuted-pixels", "random-labels"], seeds=3)
SOME = rows(["l2-init", "swr-budget", "fire"])


@pytest.fixture
def store():
    with Store(":memory:") as one:
        yield one


def test_rows_are_ranked_by_their_share_at_the_configuration_that_the_tuning_seed_chose(store):
    found = board(fill(store, PIXELS, SOME, plausible), SOME, [PIXELS])
    assert [(one.rank, one.row.name) for one in found.standings] == [
        (1, "fire"),
        (2, "l2-init"),
        (3, "swr-budget"),
        (4, "swr-budget-untuned"),
    ]
    l2_init = found.standings[1]
    cell = l2_init.cells["permuted-pixels"]
    assert cell.point == (("coefficient", 0.01),)
    assert cell.share == pytest.approx(share(cell.values, found.columns[0].vanilla, found.columns[0].fresh))
    assert cell.share == pytest.approx(0.75)
    assert l2_init.mean == cell.share
    assert l2_init.ranks == (2, 2)
    assert cell.command.startswith("swr run permuted-pixels --columns digits-mlp --methods l2-init --seeds 300-302")


def test_the_worst_neighbour_is_next_to_the_chosen_one_and_measured_on_the_tuning_seed(store):
    found = board(fill(store, PIXELS, SOME, plausible), SOME, [PIXELS])
    by_name = {one.row.name: one for one in found.standings}
    assert by_name["l2-init"].neighbour == pytest.approx((0.7 - 0.05 - 0.4) / 0.4)
    assert by_name["swr-budget"].neighbour == pytest.approx((0.6 - 0.05 * 0.3 - 0.4) / 0.4), "1.5 is further than 1.0"
    assert by_name["fire"].neighbour is None


def test_a_place_without_a_loss_has_differences_and_does_not_count(store):
    fill(store, PIXELS, SOME, plausible)
    flat = {"full-reset": 0.4, "fire": 0.5}
    records = fill(store, LABELS, SOME, lambda config: flat.get(config.method, 0.4) + 0.001 * (config.seed % 2))
    found = board(records, SOME, [PIXELS, LABELS])
    assert [(column.lost, column.counts) for column in found.columns] == [(True, True), (False, False)]
    fire = found.standings[0]
    cell = fire.cells["random-labels"]
    assert (cell.share, cell.interval, cell.neighbour) == (None, None, None)
    assert cell.against.difference == pytest.approx(0.1)
    assert fire.mean == fire.cells["permuted-pixels"].share


def test_a_place_counts_once_every_row_of_the_page_is_finished_there(store):
    fill(store, PIXELS, SOME, plausible)
    records = fill(store, LABELS, SOME[:2], lambda config: plausible(config) - 0.1)
    half = board(records, SOME, [PIXELS, LABELS])
    assert [column.counts for column in half.columns] == [True, False]
    assert all(one.mean == one.cells["permuted-pixels"].share for one in half.standings)
    records = fill(store, LABELS, SOME, lambda config: plausible(config) - 0.1)
    whole = board(records, SOME, [PIXELS, LABELS])
    assert [column.counts for column in whole.columns] == [True, True]
    fire = whole.standings[0]
    assert fire.mean == pytest.approx(sum(cell.share for cell in fire.cells.values()) / 2)


def test_a_row_needs_its_whole_grid_and_all_reported_seeds(store):
    records = fill(store, PIXELS, SOME[:1], plausible)
    assert [one.row.name for one in board(records, SOME, [PIXELS]).standings] == ["swr-budget-untuned"]
    assert board(records, SOME, [PIXELS]).missing == 3
    fire = SOME[-1]
    add(store, fire.reported(PIXELS, ())[:-1], plausible)
    assert board(finished(store), SOME, [PIXELS]).missing == 3
    add(store, fire.reported(PIXELS, ())[-1:], plausible)
    assert board(finished(store), SOME, [PIXELS]).missing == 2


def test_without_references_there_is_no_column(store):
    assert board({}, SOME, [PIXELS]).columns == []
    add(store, references(PIXELS)["vanilla"], plausible)
    assert board(finished(store), SOME, [PIXELS]).columns == []


def test_runs_of_another_length_are_not_taken_for_these(store):
    records = fill(store, PIXELS, SOME, plausible)
    assert board(records, SOME, [replace(PIXELS, scale=0.5)]).columns == []


def test_a_row_that_is_not_run_in_streams_is_listed_where_it_is(store):
    [warm] = places(["warm-start"], seeds=3)
    averaged = rows(["ema", "fire"])
    fill(store, PIXELS, averaged[1:] if averaged[0].method == "ema" else averaged[:1], plausible)
    records = fill(store, warm, averaged, plausible)
    found = board(records, averaged, [PIXELS, warm])
    assert [column.counts for column in found.columns] == [True, True]
    assert [(one.row.name, one.rank) for one in found.standings] == [("fire", 1), ("ema", None)]


def test_a_failed_configuration_is_passed_over_and_said(store):
    fill(store, PIXELS, SOME, plausible)
    l2_init = next(row for row in SOME if row.method == "l2-init")
    fail(store, [one for one in l2_init.grid(PIXELS) if dict(one.hyper)["coefficient"] == 0.01])
    next_best = (("coefficient", 1e-3),)
    add(store, l2_init.reported(PIXELS, next_best), plausible)
    found = board(ended(store), SOME, [PIXELS])
    one = next(one for one in found.standings if one.row is l2_init)
    assert one.cells["permuted-pixels"].point == next_best
    assert one.rank is not None
    assert one.failures == {"permuted-pixels": Failure(((("coefficient", 0.01),),), final=False)}
    assert one.neighbour == -math.inf, "the failed one is next to the chosen one"
    assert all(other.failures == {} for other in found.standings if other is not one)


def test_a_row_that_fails_has_no_rank_and_does_not_stop_the_others(store):
    fill(store, PIXELS, SOME, plausible)
    fire = SOME[-1]
    whole = board(ended(store), SOME, [PIXELS])
    fail(store, fire.reported(PIXELS, ())[:1])
    found = board(ended(store), SOME, [PIXELS])
    assert [column.counts for column in found.columns] == [True]
    assert [one.row.name for one in whole.standings] == ["fire", *(one.row.name for one in found.standings[:-1])]
    last = found.standings[-1]
    assert (last.row, last.rank, last.cells) == (fire, None, {})
    assert last.failures == {"permuted-pixels": Failure(((),), final=True)}


def test_a_row_of_which_every_configuration_fails_does_not_stop_the_others(store):
    fill(store, PIXELS, SOME, plausible)
    l2_init = next(row for row in SOME if row.method == "l2-init")
    store.remove([one.identity for one in l2_init.reported(PIXELS, (("coefficient", 0.01),))])
    for count, counts in ((4, False), (5, True)):
        fail(store, l2_init.grid(PIXELS)[:count])
        found = board(ended(store), SOME, [PIXELS])
        assert [column.counts for column in found.columns] == [counts], "the fifth may still be run on the reported seeds"
        [one] = [one for one in found.standings if one.row is l2_init]
        assert one.failures["permuted-pixels"].final is counts
