"""Running a network for a measurement leaves it as it was."""

import pytest
import torch
from torch import nn

from swr.probe import undisturbed


class Restless(nn.Module):
    """Everything that a look may disturb: a counter, a replaced buffer, dropout, random numbers, batch norm, odd modes."""

    def __init__(self):
        super().__init__()
        self.norm, self.drop, self.frozen = nn.BatchNorm1d(3), nn.Dropout(), nn.BatchNorm1d(3).eval()
        self.register_buffer("calls", torch.zeros(1))
        self.register_buffer("last", torch.zeros(3))

    def train(self, mode=True):
        raise AssertionError("the modes are not ours to switch")

    def forward(self, x):
        self.calls += 1
        self.last = x[0]
        return self.frozen(self.norm(x)) + torch.rand(3)


@pytest.mark.parametrize("fails", [False, True])
def test_a_look_leaves_everything_as_it_was(fails):
    model = Restless()
    last, state = model.last, torch.get_rng_state()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    try:
        with undisturbed(model):
            assert not any(module.training for module in model.modules())
            model(torch.randn(4, 3))
            assert model.calls == 1
            assert not fails or 1 / 0
    except ZeroDivisionError:
        assert fails
    assert torch.equal(state, torch.get_rng_state())
    assert model.last is last
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert [module.training for module in model.modules()] == [True, True, True, False]
