import pytest

from swr.bench.report.layer_names import layer_name


@pytest.mark.parametrize(
    ("column", "parameter", "name"),
    [
        ("mnist-mlp", "1.weight", "fc 1 · 1.weight"),
        ("mnist-mlp", "5.weight", "fc 3 · 5.weight"),
        ("cifar100-cnnbn", "0.weight", "conv 1 · 0.weight"),
        ("cifar100-cnnbn", "5.weight", "norm 2 · 5.weight"),
        ("tinyimagenet-vgg16", "49.weight", "fc 3 · 49.weight"),
        ("mnist-mlp", "backbone.weight", "backbone.weight"),
        ("from-a-newer-version", "1.weight", "1.weight"),
    ],
)
def test_a_layer_is_named_by_its_kind_beside_its_parameter(column, parameter, name):
    assert layer_name(column, parameter) == name
