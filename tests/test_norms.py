"""Norms are accurate where a plain float32 norm is not, for every shape, layout and precision."""

import pytest
import torch

from swr.norms import frobenius_norms


def exact(tensor):
    return tensor.double().square().sum().sqrt()


def test_a_large_float32_matrix_is_right_to_a_millionth():
    weight = torch.randn(4096, 25088, generator=torch.Generator().manual_seed(0)) * 0.02
    truth = sum(float(exact(part)) ** 2 for part in weight.split(512)) ** 0.5
    (ours,) = frobenius_norms([weight])
    assert abs(float(ours) / truth - 1) < 1e-6
    assert abs(float(weight.norm()) / truth - 1) > 1e-6, "the plain norm is good enough now: simplify"


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", [(), (7,), (40000,), (5, 9), (300, 200), (64, 32, 3, 3), (100000, 2), (3, 0)])
def test_every_shape_and_precision(shape, dtype):
    tensor = torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(dtype)
    (norm,) = frobenius_norms([tensor])
    assert norm.dtype is torch.float64
    torch.testing.assert_close(norm, exact(tensor), rtol=5e-7, atol=0)


def test_many_at_once_keep_their_order_and_layout_does_not_matter():
    a, b = torch.randn(200, 300), torch.randn(64, 64, 3, 3).to(memory_format=torch.channels_last)
    norms = frobenius_norms([a.t(), b, torch.zeros(3), a[:, ::2]])
    torch.testing.assert_close(
        norms, torch.stack([exact(a), exact(b), exact(torch.zeros(1)), exact(a[:, ::2])]), rtol=5e-7, atol=0
    )


def test_non_finite_entries_show_in_their_own_norm_only():
    norms = frobenius_norms([torch.tensor([1.0, float("nan")]), torch.tensor([float("inf")]), torch.ones(4)])
    assert norms[0].isnan()
    assert norms[1].isinf()
    assert norms[2] == 2
