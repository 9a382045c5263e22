"""The best configuration on the tuning seeds."""

from boards import add, fail

from swr.bench.experiments.study import Setting
from swr.bench.report.selection import best, ended, finished, score
from swr.bench.store import Store

STREAM = Setting("s", "", "permuted-pixels", "digits-mlp", tuning=(100, 101))
STAGES = Setting("w", "", "warm-start", "mnist-mlp", tuning=(100,))
POINTS = [(("coefficient", value),) for value in (1e-3, 1e-2, 1e-1)]


def chosen(place, values):
    with Store(":memory:") as store:
        grid = place.grid("l2", POINTS)
        add(store, grid, lambda config: values[dict(config.hyper)["coefficient"], config.seed])
        return best(grid, finished(store))


def test_the_mean_over_the_tuning_seeds_decides():
    values = {(1e-3, 100): 0.5, (1e-3, 101): 0.5, (1e-2, 100): 0.9, (1e-2, 101): 0.2, (1e-1, 100): 0.6, (1e-1, 101): 0.6}
    assert chosen(STREAM, values) == (("coefficient", 1e-1),)


def test_of_equals_the_first_is_taken():
    assert chosen(STAGES, {(1e-3, 100): 0.4, (1e-2, 100): 0.5, (1e-1, 100): 0.5}) == (("coefficient", 1e-2),)


def test_held_out_accuracy_decides_where_there_is_one():
    with Store(":memory:") as store:
        [one] = STAGES.grid("l2", POINTS[:1])
        add(store, [one], lambda config: 0.7)
        assert score(one, finished(store)) == 0.7
        assert finished(store)[one.identity].last.validation_accuracy == 0.7


def test_nothing_is_chosen_before_all_runs_of_the_grid_are_done():
    with Store(":memory:") as store:
        grid = STREAM.grid("l2", POINTS)
        add(store, grid[:-1], lambda config: 0.5)
        assert best(grid, finished(store)) is None
        assert best([], finished(store)) is None
        add(store, grid[-1:], lambda config: 0.5)
        assert best(grid, finished(store)) == POINTS[0]


def test_a_configuration_that_fails_is_not_chosen():
    with Store(":memory:") as store:
        grid = STREAM.grid("l2", POINTS)
        add(store, grid[1:], lambda config: dict(config.hyper)["coefficient"])
        assert best(grid, ended(store)) is None, "not yet run"
        fail(store, grid[:1])
        assert best(grid, ended(store)) == POINTS[2]
        assert best(grid, finished(store)) is None
        fail(store, [one for one in grid if one.hyper == POINTS[2] and one.seed == 100])
        assert best(grid, ended(store)) == POINTS[1], "one failure among its seeds is enough"
        fail(store, grid)
        assert best(grid, ended(store)) is None
