"""Spectral norms by power iteration, against numpy."""

import numpy as np
import pytest
import torch

import swr
from swr.power_iteration import spectral_norm


def test_a_spectral_norm_of_nothing_is_zero_and_of_a_kernel_is_refused():
    assert spectral_norm(torch.zeros(3, 2)) == 0
    with pytest.raises(swr.OptionError, match="4 axes"):
        spectral_norm(torch.zeros(1, 1, 3, 3))
    with pytest.raises(swr.OptionError, match="example"):
        spectral_norm(lambda x: 2 * x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_power_iteration_agrees_with_numpy_in_any_precision(dtype):
    torch.manual_seed(0)
    matrix = torch.randn(40, 60).to(dtype)
    expected = np.linalg.norm(matrix.double().numpy(), 2)
    state = torch.get_rng_state()
    assert spectral_norm(matrix) == pytest.approx(expected, rel=1e-4)
    assert torch.equal(state, torch.get_rng_state())
