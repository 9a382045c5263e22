"""One network of an agent, with its method."""

from copy import deepcopy
from dataclasses import replace

import pytest
import torch
from torch import nn
from toy import stream_config

from swr.bench.training.agents.learner import Learner

CONFIG = stream_config("changing-channels", column="cartpole-ppo", examples=2048, lr=1e-2)


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


@pytest.mark.parametrize("clip", [None, 0.5])
def test_a_step_is_adam_on_the_clipped_gradient(clip):
    x, ours, other = torch.randn(6, 4), network(), network()
    learner = Learner("actor", ours, replace(CONFIG, clip=clip), x)
    adam = torch.optim.Adam(other.parameters(), lr=1e-2, fused=True)
    for _ in range(3):
        learner.descend(10 * ours(x).square().mean())
        adam.zero_grad()
        (10 * other(x).square().mean()).backward()
        norm = nn.utils.clip_grad_norm_(other.parameters(), clip or 1e9)
        adam.step()
        assert norm > 0.5
    for one, two in zip(ours.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(one, two, rtol=0, atol=0)


@pytest.mark.parametrize(("method", "hyper"), [("swr-budget", (("growth", 0.9),)), ("l2-init", (("coefficient", 0.1),))])
def test_a_method_acts_at_every_step_and_goes_on_exactly(method, hyper):
    x, plain = torch.randn(6, 4), network()
    config = replace(CONFIG, method=method, hyper=hyper)
    alone, one = Learner("actor", plain, CONFIG, x), Learner("actor", network(), config, x)
    for _ in range(5):
        alone.descend(alone.model(x).square().mean())
        one.descend(one.model(x).square().mean())
    assert not torch.equal(alone.model[0].weight, one.model[0].weight)
    copy = Learner("actor", network(), config, x)
    copy.load_state_dict(deepcopy(one.state_dict()))
    for learner in (one, copy):
        learner.descend(learner.model(x).square().mean())
    assert torch.equal(one.model[0].weight, copy.model[0].weight)
