"""The l_{p,q} norm of a chain: by hand, and which models and orders are refused."""

import math

import pytest
import torch
from torch import nn

from swr import ModelError, OptionError
from swr.diagnostics.balancing.entrywise import entrywise_norm
from swr.diagnostics.balancing.rebalancing import balancedness, minimal_norm, rebalance

from .chain_helpers import two_units


def test_the_norm_by_hand():
    """For q ≠ p the rows are summed first."""
    net = two_units()
    assert entrywise_norm(net, 1, 1) == 33
    assert entrywise_norm(net, 1, 2) == pytest.approx(math.sqrt(4**2 + 9**2 + 20**2))
    assert entrywise_norm(net, 2, 1) == pytest.approx(math.sqrt(10) + 9 + math.sqrt(16**2 + 4**2))
    assert entrywise_norm(net, 2, 2) == pytest.approx(math.sqrt(1 + 9 + 81 + 256 + 16))


def test_every_entry_of_a_kernel_counts_once():
    net = nn.Sequential(nn.Conv2d(1, 2, 2, bias=False), nn.ReLU(), nn.Flatten(), nn.Linear(8, 1, bias=False))
    net[0].weight.data = torch.tensor([1.0, 1, 1, 1, 2, 0, 0, 2]).view(2, 1, 2, 2)
    net[3].weight.data = torch.tensor([[0.0, 4, 0, 0, 1, 2, 3, -10]])
    assert entrywise_norm(net, 1, 1) == 4 + 4 + 20
    assert minimal_norm(net, 1, 1) == pytest.approx(2 * math.sqrt(4 * 4) + 2 * math.sqrt(4 * 16))


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        return x + self.fc(x)


class Skip(nn.Sequential):
    def forward(self, x):
        return x + super().forward(x)


shared = nn.Linear(4, 4)


@pytest.mark.parametrize(
    ("net", "message"),
    [
        (nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU()), "BatchNorm2d at 1 has parameters of its own"),
        (nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2)), "Tanh at 1 does not pass on the scale"),
        (nn.Sequential(nn.Linear(4, 4), nn.ReLU(), Residual()), "Residual at 2 is not a chain of plain layers"),
        (Skip(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)), "Skip at the model is not a chain"),
        (nn.Sequential(shared, nn.ReLU(), shared), "the weight of 2 is used by two layers"),
        (nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Linear(4, 2)), "Linear at 2 with 4 inputs does not match"),
        (nn.Sequential(nn.Linear(4, 4), nn.MaxPool1d(2), nn.Linear(2, 2)), "MaxPool1d at 1 does not pass on"),
        (nn.Sequential(nn.Linear(4, 3), nn.Flatten(), nn.Linear(6, 2)), "Linear at 2 with 6 inputs does not match"),
        (nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Conv2d(4, 2, 1)), "Conv2d at 2 with 4 inputs does not match"),
        (nn.Sequential(nn.Conv2d(1, 4, 3), nn.PixelShuffle(2), nn.Conv2d(1, 1, 1)), "PixelShuffle at 1 does not pass on"),
        (nn.Sequential(nn.Linear(4, 4), nn.AlphaDropout(), nn.Linear(4, 2)), "AlphaDropout at 1 does not pass on"),
        (nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(4, 2))), "not a chain of plain layers"),
        (nn.ReLU(), "ReLU has no linear layer"),
    ],
)
def test_what_is_no_chain_of_units_is_refused(net, message):
    with pytest.raises(ModelError, match=message):
        balancedness(net)


@pytest.mark.parametrize(("p", "q"), [(0.5, 2), (2, math.inf), (1, math.nan), (True, 1), ("2", 1)])
def test_orders_that_make_no_norm_are_refused(p, q):
    for measure in (entrywise_norm, minimal_norm, balancedness, rebalance):
        with pytest.raises(OptionError, match="must be a number, at least 1"):
            measure(nn.Linear(1, 1), p, q)
