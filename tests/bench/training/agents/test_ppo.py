"""PPO."""

import torch
from toy import stream_config

from swr.bench.data import load
from swr.bench.experiments.seeds import generator
from swr.bench.experiments.streams.changing_channels import channels
from swr.bench.training.agents import ControlTraining
from swr.bench.training.agents.environments import Environments
from swr.bench.training.agents.ppo import PPO, advantages

CONFIG = stream_config("changing-channels", column="cartpole-ppo", examples=2048, batch_size=128, lr=1e-3, clip=0.5)


def agent() -> PPO:
    found = ControlTraining(CONFIG, load("cartpole")).agent
    assert isinstance(found, PPO)
    return found


def test_advantages_are_the_discounted_sums_of_temporal_differences():
    random = torch.Generator().manual_seed(0)
    rewards, values = torch.rand(9, 2, generator=random), torch.rand(10, 2, generator=random)
    ended = (torch.rand(9, 2, generator=random) < 0.3).float()
    failed = ended * (torch.rand(9, 2, generator=random) < 0.5)
    found = advantages(rewards, values, failed, ended)
    for e in range(2):
        for t in range(9):
            total, weight = 0.0, 1.0
            for k in range(t, 9):
                following = 0.0 if failed[k, e] else 0.99 * float(values[k + 1, e])
                total += weight * (float(rewards[k, e]) + following - float(values[k, e]))
                weight *= 0.99 * 0.95
                if ended[k, e]:
                    break
            torch.testing.assert_close(float(found[t, e]), total, rtol=1e-5, atol=1e-5)
    assert ended.sum() > failed.sum() > 0


def test_what_was_no_transition_is_not_learned_from():
    one, environments = agent(), Environments(channels(0, 0), 0)
    seen, actions, likely, gains, goals = one._collect(environments, 64, torch.Generator().manual_seed(0))
    skipped = environments.episodes - len(environments.observations)
    assert skipped > 5
    assert len(seen) == len(actions) == len(likely) == len(gains) == len(goals) == 64 * len(environments.observations) - skipped
    with torch.no_grad():
        chances = one.actor.model(seen).log_softmax(1)
        values = one.critic.model(seen).squeeze(1)
    torch.testing.assert_close(likely, chances.gather(1, actions.unsqueeze(1)).squeeze(1))
    torch.testing.assert_close(goals - gains, values, rtol=1e-4, atol=1e-4)


def test_it_learns_to_balance():
    one, view = agent(), channels(0, 0)
    first = Environments(view, 2)
    one.learn(first, 128, generator(0, "agent"))
    one.learn(Environments(view, 2), 256, generator(0, "agent"))
    later = Environments(view, 2)
    one.learn(later, 128, generator(0, "agent"))
    assert later.mean_return > 1.3 * first.mean_return
