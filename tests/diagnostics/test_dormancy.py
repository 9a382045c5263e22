"""Scores and dormant units: values by hand, for modules and functions."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import swr
from swr.diagnostics import dormant_units, unit_scores


class Fixed(nn.Module):
    """relu of the input, then a head: its scores can be read off the input."""

    def __init__(self, units=3, module=True):
        super().__init__()
        self.body, self.act, self.head = nn.Linear(units, units, bias=False), nn.ReLU(), nn.Linear(units, 1)
        self.body.weight.data = torch.eye(units)
        self.module = module

    def forward(self, x):
        return self.head(self.act(self.body(x)) if self.module else F.relu(self.body(x)))


H = torch.tensor([[1.0, 0.0, 2.0], [3.0, -4.0, 2.0]])


@pytest.mark.parametrize(("module", "name"), [(True, "act"), (False, "relu")])
def test_scores_by_hand_for_modules_and_functions_alike(module, name):
    """E|h| = 2, 0, 2 with mean 4/3."""
    scores = unit_scores(Fixed(module=module), H)
    assert list(scores) == [name]
    assert scores[name].tolist() == pytest.approx([1.5, 0, 1.5])


def test_dormant_units_by_hand():
    x = torch.tensor([[10.0, 0.1, 0.0, 1.9]])  # mean 3: scores 3.33, 0.033, 0, 0.63
    model = Fixed(4)
    assert dormant_units(model, x, threshold=0).dormant == {"act": 1}
    assert dormant_units(model, x).dormant == {"act": 1}
    found = dormant_units(model, x, threshold=0.05)
    assert (found.dormant, found.units, found.fractions, found.total) == ({"act": 2}, {"act": 4}, {"act": 0.5}, 0.5)


def test_in_a_silent_layer_every_unit_is_dormant():
    assert dormant_units(Fixed(), -H.abs()).total == 1
    assert unit_scores(Fixed(), -H.abs())["act"].tolist() == [0, 0, 0]


def test_the_total_weighs_layers_by_their_units():
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1), nn.ReLU(), nn.Linear(1, 2))
    net[2].weight.data.zero_()
    net[2].bias.data.fill_(-1)
    net[0].bias.data.fill_(9)
    found = dormant_units(net, torch.rand(5, 2))
    assert found.fractions == {"1": 0, "3": 1}
    assert found.total == 0.25


def test_a_network_without_activations_is_refused():
    with pytest.raises(swr.ModelError, match="without an activation"):
        dormant_units(nn.Linear(3, 2), torch.randn(4, 3))
    with pytest.raises(swr.OptionError, match="τ"):
        dormant_units(Fixed(), H, threshold=-1)
