"""The matrix of the first screen, and its sentences."""

import pytest
from job_tasks import epoch
from stores import HERE, finished

from swr.bench import experiments
from swr.bench.experiments import RunConfig
from swr.bench.report.overview import overview
from swr.bench.report.results import load
from swr.bench.report.tables import tables
from swr.bench.store import Store

VALUES = {
    "cold": (0.9, 0.9, 0.9),
    "vanilla": (0.50, 0.51, 0.52),
    "l2": (0.505, 0.500, 0.525),  # differences 0.005, -0.01, 0.005
    "l2-init": (0.40, 0.42, 0.41),
    "shrink-perturb": (0.50, 0.51, 0.52),
    "head-reset": (0.3, 0.2, 0.4),
    "swr": (0.60, 0.62, 0.61),
}


def made(tmp_path, configs, values=lambda config: VALUES[config.line][config.seed]):
    finished(tmp_path / "swr.sqlite", configs, values)
    results = load(tmp_path / "swr.sqlite")
    return overview(tables(results.records, results.epochs))


@pytest.fixture
def found(tmp_path):
    configs = experiments.expand("warm-start", columns=["mnist-mlp"], seeds=3)
    configs += experiments.expand("warm-start", columns=["cifar10-cnn"], methods=["vanilla", "swr"], seeds=1)
    pair = {"columns": ["mnist-mlp"], "methods": ["vanilla", "swr"]}
    configs += experiments.expand("generalization", **pair, seeds=2, epochs_scale=0.1)
    return made(tmp_path, configs)


def shades(found, index=0):
    return {title: cells[index] for title, cells in found.rows}


def test_the_matrix_has_every_method_and_every_experiment_on_its_columns(found):
    assert found.groups == [("Warm start", 2), ("Generalization", 1)]
    assert [(one.experiment, one.column, one.label) for one in found.places] == [
        ("warm-start", "mnist-mlp", ""),
        ("warm-start", "cifar10-cnn", ""),
        ("generalization", "mnist-mlp", "20 of 200 epochs"),
    ]
    assert list(shades(found)) == ["vanilla (cold start)", "vanilla", "L2", "L2 Init", "S&P", "head reset", "SWR"]
    assert [title for title, shade in shades(found, 2).items() if shade] == ["vanilla", "SWR"]


def test_a_cell_is_coloured_by_its_difference_to_vanilla_in_units_of_its_spread(found):
    cells = shades(found)
    swr = cells["SWR"]  # differences 0.10, 0.11, 0.09: mean 0.1, standard deviation 0.01
    assert (swr.step, swr.effect, swr.verdict) == (3, "+10.0 sd", 1)
    assert (cells["L2"].step, cells["L2"].effect, cells["L2"].verdict) == (0, "+0.0 sd", 0)
    assert (cells["L2 Init"].step, cells["L2 Init"].verdict) == (-3, -1)
    assert (cells["S&P"].step, cells["S&P"].effect) == (0, "+0.0 sd"), "equal"
    assert (cells["vanilla"].step, cells["vanilla"].effect) == (0, "")


def test_one_seed_has_no_colour_and_shows_the_difference(found):
    shade = shades(found, 1)["SWR"]
    assert (shade.step, shade.effect, shade.verdict) == (0, "+0.1000", 0)


def test_the_best_is_marked_only_where_the_intervals_allow_it(found):
    assert [title for title, shade in shades(found).items() if shade and shade.cell.best] == ["SWR"]
    assert not any(shade.cell.best for shade in shades(found, 1).values() if shade), "one seed"


def test_three_sentences_say_how_much_there_is_who_is_ahead_and_what_is_noise(found):
    what, who, noise = found.sentences
    assert what == (
        "7 methods, references included, on 3 columns, 1 to 3 seeds a cell; 1 of the columns has one seed: "
        "no spread, no verdict."
    )
    assert who.startswith("Better than vanilla by more than chance: SWR (2 of 2 columns); worse: L2 Init (1 of 1 column)")
    assert who.endswith("ahead of every other method: SWR (2 of 3 columns).")
    assert noise.startswith("3 of 6 comparisons with vanilla are within noise")


def test_a_smaller_error_is_better(tmp_path):
    runs = experiments.expand("bit-flipping", columns=["bits-mlp5"], methods=["vanilla", "swr"], seeds=2)
    with Store(tmp_path / "swr.sqlite") as store:
        store.add(runs, HERE)
        for run in runs:
            measures = {"average squared error": 1.2 if run.method == "vanilla" else 0.8}
            store.record(run.identity, [epoch(run.total, run.total, measures=measures)])
            store.finish(run.identity, {})
        one = overview(tables(store.runs()))
    assert [(place.measure, place.lower) for place in one.places] == [("average squared error", True)]
    shade = dict(one.rows)["SWR"][0]
    assert (shade.step, shade.verdict, shade.cell.best) == (3, 1, True)
    assert shade.effect == "≤ −10 sd"


def test_another_protocol_is_named_but_not_a_column_of_its_own(tmp_path):
    configs = experiments.expand("generalization", columns=["mnist-mlp"], methods=["vanilla", "swr"], seeds=1)
    configs += experiments.expand("generalization", columns=["mnist-mlp"], methods=["vanilla", "swr"], seeds=1, inputs="raw")
    one = made(tmp_path, configs)
    assert len(one.places) == 1
    assert one.elsewhere == ["Generalization (raw inputs)"]


def test_without_two_seeds_nothing_is_said_of_better_or_worse(tmp_path):
    one = made(tmp_path, experiments.expand("generalization", columns=["mnist-mlp"], seeds=1))
    assert len(one.sentences) == 2
    assert "that takes two seeds" in one.sentences[1]


def test_without_a_finished_run_it_says_so(tmp_path):
    with Store(tmp_path / "swr.sqlite") as store:
        store.add([RunConfig("generalization", "digits-mlp", "vanilla")], HERE)
    assert overview(tables(load(tmp_path / "swr.sqlite").records)).sentences == ["No run has finished yet."]
