"""The board in words."""

from boards import fail, fill, plausible

from swr.bench.experiments.board import places, rows
from swr.bench.report.leaderboard.board_tables import accuracies, notes, scores
from swr.bench.report.leaderboard.costs import Cost
from swr.bench.report.leaderboard.standings import board
from swr.bench.report.selection import ended
from swr.bench.store import Store

SOME = rows(["l2-init", "swr-budget", "swr-budget+l2-init", "fire"])
PIXELS, LABELS = places(["permuted-pixels", "random-labels"], seeds=3)


def made(*, labels):
    with Store(":memory:") as store:
        fill(store, PIXELS, SOME, plausible)
        return board(fill(store, LABELS, SOME[:2], labels), SOME, [PIXELS, LABELS])


def test_a_row_says_rank_shares_cost_and_what_was_tried():
    table = scores(made(labels=plausible), {"l2-init": Cost(1.04, 1.0)})
    assert table.head[:5] == ["method", "rank", "mean share", "permuted pixels", "random labels"]
    rows_of = {row[0]: row for row in table.rows}
    assert rows_of["FIRE"][1:4] == ["1 (1)", "1.25 [1.25, 1.25]", "1.25 [1.25, 1.25]"]
    assert rows_of["L2 Init"][3:] == ["0.75 [0.75, 0.75] (λ=0.01)", "0.75 [0.75, 0.75] (λ=0.01)", "1.04", "1.00", "5", "0.62"]
    assert rows_of["SWR, budget 1.5, untuned"][-4:] == ["", "", "0", ""]
    assert "swr-budget.ρ" not in rows_of["SWR, budget + L2 Init"][3], "what every configuration has in common is left out"


def test_the_notes_tell_what_is_missing_and_what_has_no_share():
    found = " ".join(notes(made(labels=plausible)))
    assert "permuted pixels: a fresh network is better than plain training by +0.4000 over 3 seeds." in found
    assert "random labels: 2 of 5 rows finished; it will count" in found
    assert "swr-reinit has no row" in found
    flat = " ".join(notes(made(labels=lambda config: 0.5)))
    assert "random labels: a fresh network is not clearly better than plain training (+0.0000 over 3 seeds)" in flat
    assert "cells are differences of accuracy to vanilla, 2 of 5 rows finished." in flat


def test_the_notes_name_rows_that_were_best_at_an_end_of_what_was_tried():
    def rising(config):
        return plausible(config) + sum(0.1 * value for key, value in config.hyper if key == "growth")

    with Store(":memory:") as store:
        fill(store, PIXELS, SOME[:3], rising)
        found = board(fill(store, LABELS, SOME[:3], plausible), SOME, [PIXELS, LABELS])
    at = {one.row.name: {name: dict(cell.point) for name, cell in one.cells.items()} for one in found.standings}
    assert at["swr-budget"] == {"permuted-pixels": {"growth": 3.0}, "random-labels": {"growth": 1.2}}
    [note] = [note for note in notes(found) if "best at" in note]
    assert note.startswith("permuted pixels: ")
    assert note.endswith("one beyond may be better: SWR, budget.")


def test_every_cell_stands_with_its_accuracy_and_command():
    table = accuracies(made(labels=plausible))
    assert [row[:4] for row in table.rows[:2]] == [
        ["permuted pixels", "vanilla", "", "0.4023 ± 0.0032 (n=3)"],
        ["permuted pixels", "fresh network", "", "0.8023 ± 0.0032 (n=3)"],
    ]
    fire = next(row for row in table.rows if row[1] == "FIRE")
    assert fire[-1] == "swr run permuted-pixels --columns digits-mlp --methods fire --seeds 300-302"
    assert fire[-2].startswith("+0.5000 [")
    assert sum(row[0] == "random labels" for row in table.rows) == 4


def test_what_failed_is_said_and_has_no_number():
    l2_init, fire = (next(row for row in SOME if row.method == name) for name in ("l2-init", "fire"))
    with Store(":memory:") as store:
        fill(store, PIXELS, SOME, plausible)
        fail(store, [l2_init.grid(PIXELS)[1], *fire.reported(PIXELS, ())])
        found = board(ended(store), SOME, [PIXELS])
    rows_of = {row[0]: row for row in scores(found, {}).rows}
    assert rows_of["L2 Init"][3] == "0.75 [0.75, 0.75] (λ=0.01)"
    assert rows_of["L2 Init"][-1] == "0.62", "the failed one is not next to the best"
    assert rows_of["FIRE"][1:4] == ["", "", "fails"]
    assert "L2 Init: λ=0.0001 failed on permuted pixels, not chosen." in notes(found)
    assert "FIRE: its one configuration failed on permuted pixels, the row has no cell there." in notes(found)
    with Store(":memory:") as store:
        fill(store, PIXELS, SOME, plausible)
        fail(store, [one for one in l2_init.grid(PIXELS) if dict(one.hyper)["coefficient"] == 0.001])
        found = board(ended(store), SOME, [PIXELS])
    assert next(row for row in scores(found, {}).rows if row[0] == "L2 Init")[-1] == "fails"
