"""Duplicate units: values by hand."""

import pytest
import torch
from torch import nn

from swr.diagnostics import duplicate_units, duplicates
from swr.errors import ModelError, OptionError


def test_copies_count_up_to_scale_and_shift_but_not_the_first_of_them():
    a, b = torch.randn(64), torch.randn(64)
    assert duplicates(torch.stack([a, b, 2 * a + 1, a, b], 1)) == 3
    assert duplicates(torch.stack([a, -a], 1)) == 0  # the opposite is another feature for a ReLU
    assert duplicates(torch.stack([a, b], 1)) == 0


def test_silent_units_are_not_copies_of_each_other():
    a = torch.randn(64)
    assert duplicates(torch.stack([torch.zeros(64), torch.ones(64), a, torch.zeros(64)], 1)) == 0
    assert duplicates(torch.zeros(64, 3)) == 0


def test_the_threshold_decides():
    a = torch.randn(4096, generator=torch.Generator().manual_seed(0))
    noisy = a + 0.5 * torch.randn(4096, generator=torch.Generator().manual_seed(1))  # correlation 0.89
    assert duplicates(torch.stack([a, noisy], 1), 0.95) == 0
    assert duplicates(torch.stack([a, noisy], 1), 0.8) == 1
    with pytest.raises(OptionError, match="the correlation must be a number between 0 and 1"):
        duplicates(torch.zeros(3, 2), 2)


def test_channels_of_a_convolution_are_compared_over_all_positions():
    net = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(2))
    net(torch.randn(2, 1, 6, 6))
    with torch.no_grad():
        net[0].weight[2] = net[0].weight[0]
        net[0].bias[:] = 0
    assert duplicate_units(net, torch.randn(16, 1, 6, 6)) == {"1": pytest.approx(1 / 3)}


def test_a_network_without_activations_is_refused():
    with pytest.raises(ModelError, match="no hidden units to compare"):
        duplicate_units(nn.Linear(2, 2), torch.randn(3, 2))
