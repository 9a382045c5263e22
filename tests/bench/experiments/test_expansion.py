"""The paper's protocol as data: counted, looked up, scaled."""

from typing import get_args

import pytest

from swr.bench import experiments
from swr.bench.cli import options
from swr.bench.experiments.expansion import best
from swr.bench.experiments.experiment import LRSchedule
from swr.errors import OptionError
from swr.methods import UnknownName

FIVE = ("mnist-mlp", "cifar10-cnn", "cifar100-cnn", "cifar100-cnnbn", "tinyimagenet-vgg16")


@pytest.mark.parametrize(
    ("experiment", "lines", "epochs"),
    [
        ("warm-start", 7, (100, 100)),
        ("continual-full", 6, (100,) * 10),
        ("continual-limited", 6, (100,) * 10),
        ("generalization", 4, (200,)),
        ("lr-decay", 5, (200,)),
    ],
)
def test_an_experiment_has_the_papers_columns_methods_seeds_and_epochs(experiment, lines, epochs):
    runs = experiments.expand(experiment)
    assert len(runs) == lines * (4 * 5 + 3)
    assert len({run.identity for run in runs}) == len(runs)
    assert tuple(dict.fromkeys(run.column for run in runs)) == FIVE
    assert {run.epochs for run in runs} == {epochs}
    assert {(run.batch_size, run.lr) for run in runs} == {(256, 1e-3)}
    assert {run.seed for run in runs if run.column == "tinyimagenet-vgg16"} == {0, 1, 2}
    assert sum(run.cold for run in runs) == (23 if experiment == "warm-start" else 0)


def test_the_learning_rate_falls_at_the_start_of_the_hundredth_and_hundred_and_fiftieth_epoch():
    assert {run.lr_drops for run in experiments.expand("lr-decay")} == {(100, 150)}
    assert {run.lr_drops for run in experiments.expand("lr-decay", epochs_scale=0.5)} == {(50, 75)}
    assert {run.lr_drops for run in experiments.expand("generalization")} == {()}


def test_a_schedule_is_the_experiments_or_the_one_that_is_given():
    other = experiments.expand("warm-start", columns=["mnist-mlp"], seeds=1, lr_schedule="one-cycle")
    assert {run.lr_schedule for run in other} == {"one-cycle"}
    assert {run.lr_schedule for run in experiments.sweep("lr-cosine", "mnist-mlp", "l2")} == {"cosine"}
    assert {run.lr_schedule for run in experiments.sweep("lr-cosine", "mnist-mlp", "l2", lr_schedule="restarts")} == {
        "restarts"
    }
    with pytest.raises(OptionError, match="belong to the schedule step, found cosine"):
        experiments.expand("lr-decay", lr_schedule="cosine")


def test_gradients_are_clipped_on_transformers_only():
    assert {run.clip for run in experiments.expand("warm-start", columns=["cifar10-vit"], seeds=1)} == {0.5}
    assert {run.clip for run in experiments.expand("permuted-pixels", columns=["cifar10-vit"], seeds=1)} == {0.5}
    [plain] = experiments.expand("warm-start", columns=["cifar10-cnn"], methods=["l2"], seeds=1)
    assert plain.clip is None
    assert "clip" not in plain.to_dict()
    assert hyper("warm-start", "cifar10-vit", "swr") == {"coefficient": 1e-3}


def test_the_options_list_every_schedule():
    assert set(get_args(get_args(get_args(options.LRSchedule)[0])[0])) == set(get_args(LRSchedule))


def hyper(experiment, column, method):
    return best(experiments.find_experiment(experiment), experiments.find_column(column), method)


def test_best_hyper_parameters_are_those_of_the_three_tables():
    assert hyper("warm-start", "mnist-mlp", "shrink-perturb") == {"coefficient": 0.4}
    assert hyper("warm-start", "cifar100-cnnbn", "swr") == {"features": 1e-4, "classifier": 1.0}
    assert hyper("warm-start", "tinyimagenet-vgg16", "l2") == {"coefficient": 1e-5}
    assert hyper("continual-full", "mnist-mlp", "l2-init") == {"coefficient": 1e-4}
    assert hyper("continual-full", "tinyimagenet-vgg16", "swr") == {"features": 1e-2, "classifier": 1e-2}
    assert hyper("continual-limited", "cifar10-cnn", "swr") == {"coefficient": 1e-1}
    assert hyper("continual-limited", "tinyimagenet-vgg16", "l2-init") == {"coefficient": 1e-3}
    assert hyper("continual-limited", "cifar100-cnn", "shrink-perturb") == {"coefficient": 0.6}
    assert hyper("generalization", "cifar100-cnnbn", "swr") == {"features": 1e-4, "classifier": 1e-1}
    assert hyper("lr-decay", "mnist-mlp", "swr-reinit") == {"coefficient": 1e-4}
    assert hyper("warm-start", "mnist-mlp", "head-reset") == {}
    assert hyper("generalization", "mnist-mlp", "shrink-perturb") == {"coefficient": 0.4}  # the nearest table
    assert hyper("generalization", "digits-cnnbn", "swr") == {"features": 1e-3, "classifier": 1e-3}


def test_a_choice_of_columns_methods_and_seeds():
    runs = experiments.expand("warm-start", columns=["digits-mlp"], methods=["swr", "cold"], seeds=2, epochs_scale=0.001)
    assert [(run.line, run.seed, run.epochs) for run in runs] == [
        ("swr", 0, (1, 1)),
        ("cold", 0, (1, 1)),
        ("swr", 1, (1, 1)),
        ("cold", 1, (1, 1)),
    ]
    assert [run.seed for run in experiments.expand("generalization", columns=["mnist-mlp"], methods=["l2"], seeds=[7, 3])] == [
        7,
        3,
    ]


def test_a_part_of_the_data_is_part_of_the_identity_only_when_it_is_given():
    whole, part = (experiments.expand("warm-start", columns=["mnist-mlp"], seeds=1, examples=n) for n in (None, 4000))
    assert {run.examples for run in part} == {4000}
    assert not {run.identity for run in whole} & {run.identity for run in part}
    assert whole == experiments.expand("warm-start", columns=["mnist-mlp"], seeds=1)
    assert "examples" not in whole[0].to_dict()
    assert {run.examples for run in experiments.expand("random-labels", seeds=1)} == {1_200}
    assert {run.examples for run in experiments.expand("random-labels", seeds=1, examples=300)} == {300}


def test_a_sweep_on_a_part_of_the_data_is_a_run_with_held_out_data():
    tried = experiments.sweep("warm-start", "mnist-mlp", "l2", seeds=[100], examples=4000)
    again = experiments.expand(
        "warm-start",
        columns=["mnist-mlp"],
        methods=["l2"],
        seeds=[100],
        examples=4000,
        validation=0.1,
        hyper=dict(tried[0].hyper),
    )
    assert again == tried[:1]


def test_the_quick_start_is_small():
    runs = experiments.expand("quickstart")
    assert len(runs) == 15
    assert {run.column for run in runs} == {"digits-mlp"}
    assert {run.label_noise for run in runs} == {0.3}
    assert list(dict.fromkeys(run.line for run in runs)) == ["cold", "vanilla", "l2", "shrink-perturb", "swr"]


@pytest.mark.parametrize(
    ("column", "method", "size"),
    [
        ("mnist-mlp", "l2", 5),
        ("mnist-mlp", "shrink-perturb", 4),
        ("cifar10-cnn", "swr", 5),
        ("cifar100-cnnbn", "swr", 25),
        ("tinyimagenet-vgg16", "swr-reinit", 25),
    ],
)
def test_a_sweep_is_the_papers_grid_on_a_validation_split(column, method, size):
    runs = experiments.sweep("warm-start", column, method, seeds=2)
    assert len(runs) == 2 * size
    assert {run.validation for run in runs} == {0.1}
    assert {run.validation for run in experiments.sweep("warm-start", column, method, seeds=1, select="test")} == {0.0}


def test_a_sweep_over_a_given_grid_of_any_method_selects_like_any_other():
    runs = experiments.sweep("warm-start", "mnist-mlp", "redo", grid={"threshold": [0.1, 0.2], "every": [10]}, seeds=[100, 101])
    assert [dict(run.hyper) for run in runs] == [{"threshold": t, "every": 10.0} for t in (0.1, 0.1, 0.2, 0.2)]
    assert [run.seed for run in runs] == [100, 101, 100, 101]
    assert {run.validation for run in runs} == {0.1}
    assert {run.validation for run in experiments.sweep("permuted-pixels", "digits-mlp", "redo")} == {0.0}
    with pytest.raises(OptionError, match="its options are coefficient"):
        experiments.sweep("warm-start", "mnist-mlp", "l2", grid={"lambda": [0.1]})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: experiments.expand("warmstart"), "no experiment 'warmstart': did you mean warm-start"),
        (lambda: experiments.expand("warm-start", columns=["minst-mlp"]), "no column 'minst-mlp': did you mean mnist-mlp"),
        (lambda: experiments.expand("warm-start", columns=["folder:-cnn"]), "no column 'folder:-cnn'"),
        (lambda: experiments.expand("warm-start", methods=["sp"]), "no method 'sp': .*known are cold, vanilla, l2"),
        (lambda: experiments.sweep("warm-start", "mnist-mlp", "swrr"), "did you mean swr"),
    ],
)
def test_unknown_names_are_listed_with_the_nearest(call, message):
    with pytest.raises(UnknownName, match=message):
        call()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: experiments.expand("warm-start", seeds=-1), "number of seeds must be at least 1, found -1"),
        (lambda: experiments.expand("warm-start", seeds=[]), "at least one"),
        (lambda: experiments.expand("warm-start", columns=[]), "at least one column"),
        (lambda: experiments.expand("warm-start", epochs_scale=0), "epochs_scale must be positive"),
        (lambda: experiments.expand("warm-start", epochs_scale=float("nan")), "epochs_scale must be positive"),
        (lambda: experiments.expand("generalization", methods=["cold"]), "one stage only"),
        (lambda: experiments.sweep("warm-start", "mnist-mlp", "vanilla"), "no hyper-parameter to sweep"),
        (lambda: experiments.sweep("warm-start", "mnist-mlp", "l2", select="train"), "select must be"),
    ],
)
def test_impossible_wishes_are_refused(call, message):
    with pytest.raises(OptionError, match=message):
        call()


class TestSeveralMethodsAtOnce:
    def test_each_part_has_its_own_best_hyper_parameters(self):
        [run] = experiments.expand("warm-start", columns=["mnist-mlp"], methods=["swr+l2+ema"], seeds=1)
        assert run.method == "swr+l2+ema"
        assert run.hyper == (("l2.coefficient", 1e-5), ("swr.coefficient", 1e-4))
        assert hyper("warm-start", "cifar100-cnnbn", "swr+head-reset") == {"swr.features": 1e-4, "swr.classifier": 1.0}

    def test_hyper_parameters_are_stored_under_one_name_however_they_are_written(self):
        runs = [
            experiments.expand("warm-start", columns=["mnist-mlp"], methods=["swr+ema"], seeds=1, hyper=given)[0]
            for given in ({"coefficient": 0.5}, {"swr.coefficient": 0.5})
        ]
        assert runs[0].hyper == (("swr.coefficient", 0.5),)
        assert runs[0].identity == runs[1].identity

    def test_a_sweep_takes_each_choice_of_one_with_each_of_the_others(self):
        runs = experiments.sweep("warm-start", "mnist-mlp", "swr+l2", seeds=1)
        assert len({run.hyper for run in runs}) == len(runs) == 25
        assert {key for run in runs for key, _ in run.hyper} == {"swr.coefficient", "l2.coefficient"}
        alone = experiments.sweep("warm-start", "mnist-mlp", "head-reset+l2", seeds=1)
        assert [run.hyper[0][0] for run in alone] == ["l2.coefficient"] * 5
        with pytest.raises(OptionError, match="head-reset has no hyper-parameter to sweep"):
            experiments.sweep("warm-start", "mnist-mlp", "head-reset+fire", seeds=1)

    @pytest.mark.parametrize(
        ("line", "given", "said"),
        [
            ("swr+l2", {"coefficient": 0.5}, "write swr.coefficient or l2.coefficient"),
            ("swr+swr-reinit", None, "one is a variant of the other"),
            ("cold+swr", None, "there is no method 'cold'"),
            ("swr+srw", None, "there is no method 'srw': did you mean swr"),
        ],
    )
    def test_what_is_wrong_is_said_before_anything_runs(self, line, given, said):
        with pytest.raises((OptionError, UnknownName), match=said):
            experiments.expand("warm-start", columns=["mnist-mlp"], methods=[line], seeds=1, hyper=given)

    def test_methods_of_ones_own_are_not_imported(self):
        [run] = experiments.expand("warm-start", columns=["mnist-mlp"], methods=["untold:Nothing+l2"], seeds=1)
        assert run.hyper == (("l2.coefficient", 1e-5),)
        assert run.title == "untold:Nothing + L2"
