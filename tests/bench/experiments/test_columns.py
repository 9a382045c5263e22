"""The columns, and what the paper published about them."""

from swr.bench import experiments

FIVE = ("mnist-mlp", "cifar10-cnn", "cifar100-cnn", "cifar100-cnnbn", "tinyimagenet-vgg16")


def test_published_results():
    assert experiments.published("generalization", "mnist-mlp", "swr").mean == 0.9822
    assert experiments.published("lr-decay", "tinyimagenet-vgg16", "swr-reinit").std == 0.0070
    assert experiments.published("lr-decay", "cifar100-cnnbn", "l2").mean == 0.4532
    assert experiments.published("warm-start", "mnist-mlp", "swr") is None


def test_every_method_of_a_published_table_is_run_by_its_experiment():
    for name in FIVE:
        published = experiments.COLUMNS[name].published
        assert list(published) == ["generalization", "lr-decay"]
        for experiment, table in published.items():
            assert tuple(table) == experiments.find_experiment(experiment).methods


def test_any_dataset_can_meet_any_model():
    assert experiments.find_column("mnist-cnnbn").dataset == "mnist"
    place = experiments.find_column("folder:some-pictures-vgg16")
    assert (place.dataset, place.model) == ("folder:some-pictures", "vgg16")
    [run] = experiments.expand("generalization", columns=["folder:x-cnn"], methods=["swr"], seeds=1)
    assert dict(run.hyper) == {"coefficient": 1e-3}
