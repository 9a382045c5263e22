"""Weights too coarse for one small factor still get what many steps ask for."""

import pytest
import torch

import swr
from nets import inputs_of, make, mlp
from swr.norms import frobenius_norms

# Growth is imitated by writing to the weights, which a rescaler notices before its first step.
pytestmark = pytest.mark.filterwarnings("ignore:the weights have changed since the rescaler was built")


def weights_of(model):
    return [p for p in model.parameters() if p.ndim == 2]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_a_pull_below_the_spacing_arrives_over_many_steps(dtype):
    """Weights at twice their anchor, λ = 1e-3: after 1000 steps n = n0 (1 + 0.999^1000)."""
    model = make(mlp, dtype=dtype)
    anchors = frobenius_norms(weights_of(model))
    rescaler = swr.SoftWeightRescaling(model, inputs_of(model), coefficient=1e-3)
    with torch.no_grad():
        for w in weights_of(model):
            w.mul_(2)
    naive = [w.detach().clone() for w in weights_of(model)]
    for _ in range(1000):
        rescaler.step()
    expected = anchors * (1 + 0.999**1000)
    torch.testing.assert_close(frobenius_norms(weights_of(model)), expected, rtol=2e-2, atol=0)
    if dtype is torch.bfloat16:
        factor = torch.tensor(1 - 5e-4, dtype=torch.bfloat16)
        assert all(torch.equal(w * factor, w) for w in naive), "one factor alone is visible: the test shows nothing"


@torch.no_grad()
def test_what_was_not_applied_stays_below_the_spacing_and_the_function_stays_proportional():
    model = make(mlp, dtype=torch.bfloat16)
    x = inputs_of(model, 64)
    rescaler = swr.SoftWeightRescaling(model, x, coefficient=1e-2)
    for p in model.parameters():
        p.mul_(1.5) if p.ndim == 2 else p.add_(0.1)
    before = model.double()(x.double())
    model.bfloat16()
    for _ in range(200):
        rescaler.step()
    pending = torch.tensor(list(rescaler.state_dict()["optimizers"][0]["pending"].values()))
    assert pending.abs().max() < torch.finfo(torch.bfloat16).eps
    assert pending.abs().max() > 0
    after = model.double()(x.double())
    constant = (after * before).sum() / before.square().sum()
    assert constant < 0.9
    assert float((after - constant * before).norm() / after.norm()) < 0.05


def test_precisions_may_be_mixed_in_one_model():
    model = make(mlp, dtype=torch.float32)
    model[2].double()
    model[4].bfloat16()
    rescaler = swr.SoftWeightRescaling(model, coefficient=1.0, plan=swr.chain(model))
    anchors = frobenius_norms(weights_of(model))
    with torch.no_grad():
        for w in weights_of(model):
            w.mul_(3)
    rescaler.step()
    torch.testing.assert_close(frobenius_norms(weights_of(model)), anchors, rtol=1e-2, atol=0)
    assert [p.dtype for p in weights_of(model)] == [torch.float32, torch.float64, torch.bfloat16]
