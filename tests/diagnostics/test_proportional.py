"""The proportionality error: by hand, and for rescaled networks."""

import numpy as np
import pytest
import torch
from torch import nn

import swr
from nets import inputs_of, make, mlp
from swr.diagnostics import proportionality


def test_proportionality_by_hand():
    f = torch.tensor([[3.0, 4.0]])
    cases = {(6.0, 8.0): (2, 0), (4.0, -3.0): (0, 1), (-3.0, -4.0): (0, 1), (0.0, 0.0): (0, 0), (7.0, 1.0): (1, np.sqrt(0.5))}
    for g, expected in cases.items():
        found = proportionality(f, torch.tensor([g]))
        assert (found.constant, found.error) == pytest.approx(expected)
    assert proportionality(torch.zeros(1, 2), f).error == 1


def test_a_rescaled_network_is_proportional_and_a_naively_scaled_one_is_not():
    model = make(mlp)
    scaled, naive = make(mlp), make(mlp)
    x = inputs_of(model, 64)
    constant = swr.rescale(scaled, swr.analyze(scaled, x), {"0.weight": 0.5, "2.weight": 3.0})
    for p in naive.parameters():
        p.data *= 0.5
    found = proportionality(model, scaled, x)
    assert found.constant == pytest.approx(constant)
    assert found.error < 1e-14
    assert proportionality(model, naive, x).error > 0.05


def test_outputs_of_other_sizes_and_models_without_inputs_are_refused():
    with pytest.raises(swr.InputsError, match="2 and 3"):
        proportionality(torch.zeros(2), torch.zeros(3))
    with pytest.raises(swr.InputsError, match="inputs"):
        proportionality(nn.Linear(1, 1), nn.Linear(1, 1))
