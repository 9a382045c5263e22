"""DQN."""

import copy

import torch
from torch.nn import functional as F
from toy import stream_config

from swr.bench.data import load
from swr.bench.experiments.seeds import generator
from swr.bench.experiments.streams.changing_channels import channels
from swr.bench.training.agents import ControlTraining
from swr.bench.training.agents.dqn import DQN, Memory
from swr.bench.training.agents.environments import Environments

CONFIG = stream_config("changing-channels", column="cartpole-dqn", examples=2048, batch_size=64, lr=3e-3)


def agent() -> DQN:
    found = ControlTraining(CONFIG, load("cartpole")).agent
    assert isinstance(found, DQN)
    return found


def test_a_memory_returns_what_was_put_in_and_not_what_was_no_transition():
    memory = Memory(10, 1)
    for i in range(4):
        state = torch.tensor([[10.0 * i], [10.0 * i + 1]])
        memory.add(torch.tensor([True, i != 2]), state, state + 100, torch.tensor([i, -i]), torch.ones(2), torch.zeros(2))
    assert memory.count == 7
    before, after, actions, rewards, failed = memory.draw(200, torch.Generator().manual_seed(0))
    assert set(before.flatten().tolist()) == {0.0, 1.0, 10.0, 11.0, 20.0, 30.0, 31.0}
    assert torch.equal(after, before + 100)
    assert actions.tolist() == [int(b // 10) * (-1 if b % 10 else 1) for b in before.flatten().tolist()]
    assert rewards.all()
    assert not failed.any()


def test_an_update_goes_towards_the_reward_and_the_best_next_value():
    one = agent()
    target = copy.deepcopy(one.values.model)
    with torch.no_grad():
        target[5].bias.add_(torch.tensor([3.0, -3.0]))
    before, after = torch.randn(4, 4), torch.randn(4, 4)
    actions, rewards, failed = (
        torch.tensor([0, 1, 1, 0]),
        torch.tensor([1.0, 1.0, 0.5, 1.0]),
        torch.tensor([0.0, 1.0, 0.0, 0.0]),
    )
    wanted = 0.0
    for i in range(4):
        goal = rewards[i] + (0.0 if failed[i] else 0.99 * max(target(after[i : i + 1])[0].tolist()))
        value = one.values.model(before[i : i + 1])[0, actions[i]].detach()
        wanted += float(F.smooth_l1_loss(value, torch.as_tensor(goal))) / 4
    weight = one.values.model[1].weight.detach().clone()
    torch.testing.assert_close(float(one._update(target, before, after, actions, rewards, failed)), wanted)
    assert not torch.equal(weight, one.values.model[1].weight)


def test_it_learns_to_balance():
    one, view = agent(), channels(0, 0)
    first = Environments(view, 2)
    one.learn(first, 150, generator(0, "agent"))
    later = Environments(view, 2)
    one.learn(later, 150, generator(0, "agent"))
    assert later.mean_return > 1.5 * first.mean_return
