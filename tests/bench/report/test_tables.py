import math
import shlex
from collections import Counter
from dataclasses import replace

import pytest
import tyro
from scipy import stats
from stores import curve, hostile_method, make

from swr.bench import experiments
from swr.bench.cli import options, run_commands
from swr.bench.experiments import RunConfig
from swr.bench.experiments import run_description as protocol
from swr.bench.report.results import load
from swr.bench.report.tables import tables
from swr.bench.store import Provenance, Record
from swr.bench.training import Epoch

HERE = Provenance({}, None, "host")


def record(config, accuracy=0.9, *, status="done", epoch=None, **more):
    """A run, and its last epoch if it has one."""
    number = config.total if epoch is None else epoch
    values = {"validation_accuracy": 0.5 if config.validation else None, "norms": {}, "seconds": 1.0, **more}
    last = Epoch(number, len(config.epochs) - 1, config.total, 0.1, 1.0, accuracy, **values) if number else None
    return Record(config.identity, config, status, None, HERE, {}, 0.0, None, None, None, last)


def records(experiment, accuracy=lambda config: 0.9, **more):
    return [record(config, accuracy(config)) for config in experiments.expand(experiment, **more)]


def cells(table):
    return {(row.line, column): cell for row in table.rows for column, cell in zip(table.columns, row.cells, strict=True)}


def test_a_table_of_the_paper_with_the_published_values_beside():
    """SWR's seeds are .70 … .74, vanilla's .60 … .64."""
    found = records("generalization", lambda c: {"swr": 0.7, "vanilla": 0.6}.get(c.method, 0.5) + 0.01 * c.seed, seeds=5)
    (table,) = tables(reversed(found))
    assert (table.experiment, table.title, table.label) == ("generalization", "generalization", "")
    assert table.columns == ("MNIST (MLP)", "CIFAR-10 (CNN)", "CIFAR-100 (CNN)", "CIFAR-100 (CNN-BN)", "TinyImageNet (VGG-16)")
    assert [row.title for row in table.rows] == ["vanilla", "L2", "L2 Init", "SWR"]
    cell = cells(table)["swr", "CIFAR-10 (CNN)"]
    assert cell.values == {seed: 0.7 + 0.01 * seed for seed in range(5)}
    assert (cell.mean, cell.std) == (pytest.approx(0.72), pytest.approx(0.015811388))
    assert cell.interval == pytest.approx((0.72 - 0.0196324, 0.72 + 0.0196324), abs=1e-6)
    assert cell.published == experiments.published("generalization", "cifar10-cnn", "swr")
    assert cell.difference == pytest.approx(0.72 - 0.7158)
    assert (cell.done, cell.expected, cell.note, cell.hyper) == (5, 5, "", "λ=0.001")
    assert str(cell) == "0.7200 ± 0.0158"
    assert any("chosen on the test set" in note and "SWR λ=0.0001 on MNIST (MLP)" in note for note in table.notes)


def test_the_test_against_vanilla_pairs_the_seeds():
    draws = {("swr", s): 0.7 + 0.01 * ((s * 7) % 5) for s in range(5)} | {("vanilla", s): 0.69 + 0.011 * s for s in range(4)}
    found = [
        record(c, draws[c.method, c.seed])
        for c in experiments.expand("generalization", columns=["mnist-mlp"], methods=["vanilla", "swr"])
        if (c.method, c.seed) in draws
    ]
    cell = cells(tables(found)[0])["swr", "MNIST (MLP)"]
    expected = stats.ttest_rel([draws["swr", s] for s in range(4)], [draws["vanilla", s] for s in range(4)])
    assert (cell.p, cell.pairs) == (pytest.approx(expected.pvalue), 4)
    assert cell.gain == pytest.approx(sum(draws["swr", s] - draws["vanilla", s] for s in range(4)) / 4)
    vanilla = cells(tables(found)[0])["vanilla", "MNIST (MLP)"]
    assert (vanilla.p, vanilla.pairs, vanilla.gain) == (None, 0, None)


def test_the_best_is_ahead_of_every_complete_cell_and_never_the_reference():
    marks = {
        "cold": 0.99,
        "vanilla": 0.6,
        "l2": 0.70001,
        "l2-init": 0.70004,
        "shrink-perturb": 0.98,
        "head-reset": 0.1,
        "swr": 0.5,
    }
    found = records("warm-start", lambda c: marks[c.line], columns=["mnist-mlp"], seeds=2)
    unfinished = next(r for r in found if r.config.method == "shrink-perturb" and r.config.seed == 1)
    found[found.index(unfinished)] = replace(unfinished, status="failed")
    (table,) = tables(found)
    assert [row.line for row in table.rows if row.cells[0].best] == ["l2-init"], "ahead of L2 by the same in every seed"
    assert not any(cell.best for cell in cells(tables([r for r in found if r.config.method == "swr"])[0]).values()), "alone"
    nan = [replace(r, last=replace(r.last, test_accuracy=math.nan)) if r.config.method == "l2" else r for r in found]
    assert [row.line for row in tables(nan)[0].rows if row.cells[0].best] == ["l2-init"]


def test_one_seed_and_a_lead_within_noise_make_no_best():
    def best(seeds, *gaps):
        marks = {"vanilla": [0.5] * 5, "swr": [0.5 + gap for gap in gaps]}
        found = records("warm-start", lambda c: marks[c.line][c.seed], columns=["mnist-mlp"], seeds=seeds, methods=[*marks])
        return [row.line for row in tables(found)[0].rows if row.cells[0].best]

    assert best(1, 0.2) == []
    assert best(3, 0.2, 0.21, 0.19) == ["swr"]
    assert best(3, 0.2, -0.1, 0.19) == [], "its interval contains zero"


def test_the_interval_of_an_accuracy_stays_between_zero_and_one():
    found = records("warm-start", lambda c: (1.0, 0.6)[c.seed], columns=["mnist-mlp"], seeds=2, methods=["vanilla", "swr"])
    cell = cells(tables(found)[0])["swr", "MNIST (MLP)"]
    assert cell.interval == (0.0, 1.0)
    assert cell.against.interval == (0.0, 0.0), "a difference has no such bounds"


@pytest.mark.parametrize(
    ("others", "note"),
    [
        ([("done", None)] * 3, ""),
        ([("done", None), ("done", None)], "2 of 3 seeds"),
        ([("running", 120)], "running, epoch 120/200"),
        ([("running", 0)], "starting"),
        ([("running", 120), ("running", 80), ("done", None)], "1 of 3 seeds, 2 running, epoch 120/200"),
        ([("failed", 7)], "failed"),
        ([("failed", 7), ("failed", 0), ("done", None)], "1 of 3 seeds, 2 failed"),
        ([("pending", 12), ("done", None), ("done", None)], "2 of 3 seeds, stopped, epoch 12/200"),
        ([("pending", 0)], "not started"),
        ([], "not run"),
    ],
)
def test_an_incomplete_cell_says_what_is_missing(others, note):
    swr = experiments.expand("generalization", columns=["mnist-mlp"], methods=["swr"], seeds=3)
    found = records("generalization", columns=["mnist-mlp"], methods=["vanilla"], seeds=3)
    found += records("generalization", columns=["cifar10-cnn"], methods=["swr"], seeds=1)  # so that the row is there
    found += [record(c, status=status, epoch=epoch) for c, (status, epoch) in zip(swr, others, strict=False)]
    cell = cells(tables(found)[0])["swr", "MNIST (MLP)"]
    assert cell.note == note
    assert cell.expected == 3
    assert (cell.failed, cell.running) == (sum(s == "failed" for s, _ in others), sum(s == "running" for s, _ in others))
    assert cell.published.mean == 0.9822, "the paper's stands there in any case"
    assert "--columns mnist-mlp --methods swr" in cell.command


CHANGES = {
    "20 of 200 epochs": {"epochs": (20,)},
    "learning rate 0.01": {"lr": 0.01},
    "batch size 64": {"batch_size": 64},
    "30 % noisy labels": {"label_noise": 0.3},
    "learning rate falls at epoch 7": {"lr_drops": (7,)},
    "raw inputs": {"inputs": "raw"},
}


@pytest.mark.parametrize("label", CHANGES)
def test_another_protocol_has_a_table_of_its_own_and_nothing_of_the_papers(label):
    usual = records("generalization", lambda c: 0.9, columns=["mnist-mlp"])
    other = [record(replace(r.config, **CHANGES[label]), 0.1) for r in usual]
    first, second = tables(other + usual)
    assert {round(cell.mean, 9) for cell in cells(first).values()} == {0.9}
    assert all(cell.published for cell in cells(first).values())
    assert (second.label, second.title) == (label, f"generalization ({label})")
    assert {round(cell.mean, 9) for cell in cells(second).values()} == {0.1}
    assert not any(cell.published or cell.difference for cell in cells(second).values())
    assert cells(second)["swr", "MNIST (MLP)"].pairs == 5, "vanilla of the same protocol is there to compare with"


def test_a_batch_size_of_its_own_per_column_is_the_protocol():
    found = records("generalization", columns=["digits-mlp", "mnist-mlp"], seeds=1)
    assert len({r.config.batch_size for r in found}) == 2
    (table,) = tables(found)
    assert table.columns == ("MNIST (MLP)", "digits (MLP)")


def test_a_sweep_is_selected_on_held_out_data():
    """Validation accuracy falls with λ, test accuracy rises."""
    grid = experiments.sweep("warm-start", "mnist-mlp", "shrink-perturb", seeds=2)
    found = [record(c, dict(c.hyper)["coefficient"], validation_accuracy=1 - dict(c.hyper)["coefficient"]) for c in grid]
    main, table = tables(found + records("warm-start", columns=["mnist-mlp"], seeds=2))
    assert main.title == "warm-start"
    assert table.title == "warm-start, S&P, sweep (10 % of the training data held out)"
    assert table.columns == ("MNIST (MLP), accuracy on held-out data", "MNIST (MLP), final test accuracy")
    assert [row.title for row in table.rows] == ["S&P λ=0.2", "S&P λ=0.4", "S&P λ=0.6", "S&P λ=0.8"]
    assert [[cell.best for cell in row.cells] for row in table.rows] == [[True, False], *[[False, False]] * 3]
    assert table.notes[:2] == (
        "Selected on 10 % of the training data that was held out; the test accuracy stands beside it and decides nothing.",
        "Largest mean: S&P λ=0.2.",
    )


def test_other_hyper_parameters_do_not_enter_the_papers_table():
    found = [
        record(c, 0.95 if c.hyper == (("coefficient", 1.0),) else 0.5)
        for c in experiments.sweep("generalization", "mnist-mlp", "swr", seeds=2, select="test")
    ]
    main, grid = tables(found + records("generalization", lambda c: 0.5, columns=["mnist-mlp"], seeds=2))
    assert [row.title for row in main.rows] == ["vanilla", "L2", "L2 Init", "SWR"]
    assert cells(main)["swr", "MNIST (MLP)"].hyper == "λ=0.0001"
    assert [row.title for row in grid.rows] == [f"SWR λ={v}" for v in ("0.0001", "0.001", "0.01", "0.1", "1")]
    assert [bool(row.cells[0].published) for row in grid.rows] == [True, False, False, False, False]
    assert [row.cells[0].best for row in grid.rows] == [False, False, False, False, True]
    assert any("choosing on the test set" in note for note in grid.notes)


def test_grids_over_one_and_over_two_coefficients_do_not_share_a_table():
    found = [
        record(c)
        for column in ("mnist-mlp", "cifar100-cnnbn")
        for c in experiments.sweep("generalization", column, "swr", seeds=1)
    ]
    assert [len(table.rows) for table in tables(found)] == [25, 5]
    assert all(cell.done for table in tables(found) for cell in cells(table).values())


def test_an_experiment_that_runs_a_method_with_several_settings_has_a_row_for_each():
    found = records("proportionality", lambda c: dict(c.hyper).get("ratio", 1.0), seeds=2)
    (table,) = tables(found)
    assert [row.title for row in table.rows][:2] == ["vanilla", f"{found[1].config.title} {table.rows[1].cells[0].hyper}"]
    assert len(table.rows) == 1 + 2 * 5
    assert all(cell.done == cell.expected == 2 for cell in cells(table).values())
    assert sum(len(row.cells[0].runs) for row in table.rows) == len(found)


def test_a_table_says_how_many_runs_took_over_their_first_stage():
    found = records("proportionality", seeds=2)
    assert not any("first stage" in note for note in tables(found)[0].notes)
    found = [replace(one, facts={"taken_over": 100} if one.config.hyper else {}) for one in found]
    text = "20 runs took over the first stage of another that begins alike: its time is not counted again."
    assert text in tables(found)[0].notes


def test_what_is_measured_besides_has_a_table():
    config = experiments.expand("balancedness", seeds=2)
    found = [record(c, measures={"l2,2 over minimum": 1.5 + c.seed, "test_accuracy_at_start": 0.5}) for c in config]
    accuracy, measured = tables(found)
    assert accuracy.measure == "final test accuracy"
    assert (measured.title, measured.measure) == ("balancedness, l2,2 over minimum at the end", "l2,2 over minimum at the end")
    assert {(cell.mean, cell.best, cell.p) for cell in cells(measured).values()} == {(2.0, False, None)}


def test_one_bad_epoch_at_the_end_does_not_decide_the_median():
    found = records("generalization", lambda c: 0.1, columns=["mnist-mlp"], seeds=1, methods=["vanilla", "swr"])
    epochs = {r.id: [replace(r.last, epoch=n, test_accuracy=0.7 if n <= 180 else 0.8) for n in range(1, 200)] for r in found}
    final, median = tables(found, {run: [*known, found[0].last] for run, known in epochs.items()})
    assert {cell.mean for cell in cells(final).values()} == {0.1}
    assert median.title == "generalization, median test accuracy of the last tenth of the epochs"
    assert {cell.mean for cell in cells(median).values()} == {0.8}
    assert not any(cell.published for cell in cells(median).values())


def test_what_is_lost_when_the_chunk_changes_has_a_table():
    found = records("continual-limited", columns=["mnist-mlp"], seeds=2, methods=["vanilla", "swr"])
    found += records("continual-full", columns=["mnist-mlp"], seeds=1, methods=["vanilla"])
    paths = {
        "vanilla": [(0, 0.5), (0, 0.6), (1, 0.4), (1, 0.6), (2, 0.5)],  # -0.2 and -0.1
        "swr": [(0, 0.5), (0, 0.6), (1, 0.5), (1, 0.6), (2, 0.6)],  # -0.1 and 0
    }
    epochs = {r.id: [replace(r.last, stage=k, test_accuracy=a) for k, a in paths[r.config.method]] for r in found}
    titles = [table.title for table in tables(found, epochs)]
    title = "continual-limited, change of the test accuracy when the chunk changes"
    assert titles == ["continual-full", "continual-limited", title]
    change = tables(found, epochs)[-1]
    assert {name: round(cell.mean, 12) for (name, _), cell in cells(change).items()} == {"vanilla": -0.15, "swr": -0.05}
    assert {name: cell.best for (name, _), cell in cells(change).items()} == {"vanilla": False, "swr": True}
    assert change.notes[0].startswith("Of each run, the test accuracy after the first epoch on a chunk minus")
    assert [table.title for table in tables(found)] == titles[:2], "without the epochs nothing is known of it"


def test_accuracy_before_the_last_stage_is_found_in_the_epochs():
    found = records("proportionality", seeds=1) + records("warm-start", columns=["mnist-mlp"], seeds=1)
    epochs = {r.id: [replace(r.last, epoch=101, measures={"test_accuracy_at_start": 0.25}), r.last] for r in found}
    titles = [table.title for table in tables(found, epochs)]
    assert titles == ["warm-start", "proportionality", "proportionality, test accuracy before the last stage"]
    assert {cell.mean for cell in cells(tables(found, epochs)[2]).values()} == {0.25}


def test_an_experiment_of_ones_own_is_shown_as_it_is():
    def mine(method, seed, **more):
        return RunConfig("mine", "somewhere", method, seed=seed, epochs=(3,), **more)

    found = [record(mine("vanilla", s), 0.5) for s in range(2)]
    found += [record(mine("l2", s, hyper=(("coefficient", v),)), v) for s in range(2) for v in (0.1, 0.2)]
    main, grid = tables(found)
    assert (main.title, main.columns, [row.title for row in main.rows]) == ("mine (3 epochs)", ("somewhere",), ["vanilla"])
    assert [row.title for row in grid.rows] == ["L2 λ=0.1", "L2 λ=0.2"]
    assert [cell.command for cell in cells(main).values()] == [None]
    assert not any(cell.published for cell in cells(main).values())


def test_no_run_is_left_out_and_none_is_mixed_with_others(tmp_path, monkeypatch):
    hostile_method(monkeypatch)
    make(tmp_path / "s", epochs=20, hostile=True)
    found = load(tmp_path / "s").records
    found += [replace(r, id=c.identity, config=c) for r in found[:50] for c in [replace(r.config, lr=0.5)]]
    seen = Counter()
    by_id = {record.id: record.config for record in found}
    for table in tables(found):
        for cell in (cell for row in table.rows for cell in row.cells):
            assert len({replace(by_id[run], seed=0) for run in cell.runs}) <= 1, "only the seed differs"
            assert len({by_id[run].seed for run in cell.runs}) == len(cell.runs)
            seen.update(set(cell.runs))
    assert seen.keys() == by_id.keys()


def test_the_command_of_a_cell_makes_its_runs(tmp_path):
    make(tmp_path / "s", epochs=20)
    found = load(tmp_path / "s").records
    commands = {}
    for cell in (cell for table in tables(found) for row in table.rows for cell in row.cells if cell.runs):
        commands.setdefault(cell.command, set()).update(cell.runs)
    assert len(commands) > 50
    for command, runs in list(commands.items())[::3]:
        parsed = tyro.cli(options.explained(), args=shlex.split(command)[1:], config=(tyro.conf.OmitSubcommandPrefixes,))
        assert {config.identity for config in run_commands.runs_of(parsed)} == runs


def test_the_command_of_a_cell_makes_no_other_cell():
    """Neither the other points of a grid that was selected on the test set, nor the other ratios of a scaling."""
    grid = experiments.sweep("generalization", "cifar100-cnnbn", "swr", seeds=2, select="test")
    found = [record(replace(c, inputs="raw")) for c in grid] + records("proportionality", seeds=1)
    made = dict({(cell.command, cell.runs) for table in tables(found) for row in table.rows for cell in row.cells})
    assert len(made) == len(set(made.values())) == 25 + 11
    first = "swr run generalization --columns cifar100-cnnbn --methods swr --seeds 2"
    assert f"{first} --hyper classifier=0.0001 features=0.1 --inputs raw" in made
    assert "swr run proportionality --columns cifar10-cnn --methods naive-scaling --seeds 1 --hyper ratio=0.9" in made


def test_the_size_of_the_data_stands_under_the_table():
    found = [replace(r, facts={"train": 5000, "test": 1000}) for r in records("generalization", columns=["mnist-mlp"], seeds=1)]
    assert "Training and test images: MNIST (MLP) 5000 and 1000." in tables(found)[0].notes


def test_a_failed_run_is_counted_under_the_table():
    found = records("generalization", columns=["mnist-mlp"], seeds=2)
    found[0] = replace(found[0], status="failed")
    assert "1 run failed: `swr status --errors` shows why." in tables(found)[0].notes


def test_a_done_run_is_shown_with_its_last_epoch():
    (config,) = experiments.expand("continual-full", columns=["mnist-mlp"], methods=["swr"], seeds=1, epochs_scale=0.02)
    last = curve(config)[-1]
    (table,) = tables([replace(record(config), last=last)])
    assert table.rows[0].cells[0].mean == last.test_accuracy
    assert table.label == "10 x 2 of 10 x 100 epochs"


@pytest.mark.parametrize("scale", [1.0, 0.5, 0.1, 0.03, 0.005])
@pytest.mark.parametrize("experiment", ["warm-start", "lr-decay", "proportionality", "permuted-pixels", "five-plus-one"])
def test_every_length_has_its_command(experiment, scale):
    for config in experiments.expand(experiment, seeds=1, epochs_scale=scale):
        words = shlex.split(protocol.command(config, [0]))
        given = float(words[words.index("--epochs-scale") + 1]) if "--epochs-scale" in words else 1.0
        assert config in experiments.expand(experiment, columns=[config.column], seeds=1, epochs_scale=given)
