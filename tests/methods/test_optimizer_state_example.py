"""Resets with other policies for the optimizer's state, of `examples/optimizer_state.py`."""

from pathlib import Path

import pytest
import torch
from torch import nn

from swr.methods import registry

ROOT = Path(__file__).parents[2]
KEPT = {
    "Moments": {"0.weight", "0.bias", "2.weight", "2.bias"},
    "Restart": {"0.weight", "0.bias", "2.weight", "2.bias"},
    "HeadRestart": {"0.weight", "0.bias"},
    "LaterRestart": {"0.weight", "0.bias", "2.bias"},
    "FireRestart": {"0.bias", "2.bias"},
    "FullMoments": set(),
}
"""parameters that a new task does not change"""


@pytest.mark.parametrize("name", KEPT)
def test_a_new_task_resets_what_it_says_and_the_optimizer_forgets_it_by_its_policy(name, monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
    optimizer = torch.optim.Adam(model.parameters())
    method = registry.find(f"examples.optimizer_state:{name}")(model, torch.randn(2, 6), seed=1)
    method.attach(optimizer)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(8, 6)).square().sum().backward()
        optimizer.step()
    before = {key: p.detach().clone() for key, p in model.named_parameters()}
    method.new_task()
    after = dict(model.named_parameters())
    assert {key for key, p in after.items() if torch.equal(p, before[key])} == KEPT[name]
    told = set(after) if name in ("Moments", "Restart") else set(after) - KEPT[name]
    for key, p in after.items():
        state = optimizer.state.get(p, {})
        if key not in told:
            assert state["exp_avg_sq"].count_nonzero(), "nothing of it was reset"
        elif name in ("Moments", "FullMoments"):
            assert int(state["step"]) == 3
            assert not state["exp_avg"].count_nonzero()
            assert not state["exp_avg_sq"].count_nonzero()
        else:
            assert not state, "the next step is a first one"
