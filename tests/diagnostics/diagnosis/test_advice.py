"""What is advised, in which order; every line of code runs."""

import pytest
import torch
from torch import nn

from swr.diagnostics.diagnosis.advice import advise, culprit
from swr.diagnostics.diagnosis.layer_table import Layer, Units


def layer(name, norm=1.0, silent=0.0, recovers=None):
    return Layer(name, f"{name}.weight", norm, Units(silent, 0, 10), Units(0.0, 0, 10), 1.0, 1.0, recovers)


def names(*arguments):
    return [one.what for one in advise(*arguments)]


def test_nothing_is_advised_when_nothing_is_lost():
    [advice] = advise("none", [layer("0", norm=9)], None)
    assert (advice.what, advice.code) == ("nothing", "")


def test_what_is_unclear_is_measured_again():
    assert names("unclear", [layer("0")], None) == ["measure again"]


def test_the_head_comes_first_if_resetting_it_is_enough_because_that_keeps_all_features():
    layers = [layer("0", recovers=1.0), layer("2", recovers=0.85)]
    assert culprit(layers).name == "2"
    assert names("some", layers, 0.9) == ["head reset", "shrink and perturb"]


def test_otherwise_the_layer_that_closes_most():
    layers = [layer("0", recovers=0.9, silent=0.5), layer("2", recovers=0.2)]
    assert culprit(layers).name == "0"
    assert names("lost", layers, 0.1) == ["reset of layer 0", "ReDo"]
    assert culprit([layer("0", recovers=0.1)]) is None


def test_growth_calls_for_swr_and_if_nothing_helps_a_full_reset_does():
    assert names("lost", [layer("0", norm=3.0)], 0.9) == ["shrink and perturb", "SWR"]
    assert names("lost", [layer("0", recovers=0.1)], 0.1) == ["full reset"]
    assert names("lost", [layer("0")], None) == ["full reset"]


@pytest.mark.parametrize(
    ("layers", "perturbed"),
    [([layer("0"), layer("2", recovers=1.0, norm=4.0, silent=0.5)], 0.9), ([layer("0", recovers=0.0)], 0.0)],
)
def test_every_line_of_code_runs_and_methods_for_now_change_the_network(layers, perturbed):
    for advice in advise("lost", layers, perturbed):
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        optimizer = torch.optim.Adam(model.parameters())
        before = model[2].weight.clone()
        exec(advice.code, {"model": model, "x": torch.randn(3, 4), "optimizer": optimizer})
        assert torch.equal(before, model[2].weight) == ("attach" in advice.code), advice.what
