"""Which part of a network a layer belongs to."""

from torch import nn

from swr.methods.tools.layers import parts, weights

from ..methods_table import Loop


def test_parts_go_by_type_whatever_the_names():
    model = nn.ModuleDict(
        {
            "fc_bn": nn.BatchNorm2d(3),  # before the first convolution: with it
            "linear": nn.Conv2d(3, 4, 1),
            "classifier": nn.GroupNorm(2, 4),
            "conv": nn.Linear(4, 4),
            "features": nn.LayerNorm(4),
            "bn": nn.Linear(4, 2),
        }
    )
    found = parts(model)
    assert {name.partition(".")[0] for name, part in found.items() if part == "features"} == {"fc_bn", "linear", "classifier"}
    assert {name.partition(".")[0] for name, part in found.items() if part == "classifier"} == {"conv", "features", "bn"}


def test_weights_are_those_of_layers_without_biases():
    assert list(weights(Loop("cnnbn", "vanilla", {}).model)) == [f"{i}.weight" for i in (0, 1, 4, 5, 9, 11)]
