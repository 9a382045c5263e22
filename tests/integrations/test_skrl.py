"""skrl needs no module of ours: attach to the agent's optimizer, and keep the rescaler among the agent's checkpoint modules."""

import gymnasium as gym
import pytest
import torch
from plain_loop import same, steps
from torch import nn

import swr
from nets import confirmed

skrl = pytest.importorskip("skrl", reason="skrl is not installed")

from skrl.agents.torch.dqn import DQN  # noqa: E402
from skrl.memories.torch import RandomMemory  # noqa: E402
from skrl.models.torch import DeterministicMixin, Model  # noqa: E402

OBSERVATIONS, ACTIONS = gym.spaces.Box(-1, 1, (6,)), gym.spaces.Discrete(3)


class QNetwork(DeterministicMixin, Model):
    def __init__(self):
        Model.__init__(self, observation_space=OBSERVATIONS, action_space=ACTIONS, device="cpu")
        DeterministicMixin.__init__(self)
        self.net = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 3))

    def compute(self, inputs, role=""):
        return self.net(inputs["observations"]), {}


def agent(folder):
    torch.manual_seed(0)
    models = {"q_network": QNetwork(), "target_q_network": QNetwork()}
    quiet = {"directory": str(folder), "write_interval": 0, "checkpoint_interval": 0}
    made = DQN(
        models=models,
        memory=RandomMemory(memory_size=32, device="cpu"),
        observation_space=OBSERVATIONS,
        action_space=ACTIONS,
        device="cpu",
        cfg={"batch_size": 8, "learning_rate": 2e-2, "experiment": quiet},
    )
    made.init()
    generator = torch.Generator().manual_seed(1)
    for _ in range(32):
        made.memory.add_samples(
            observations=torch.randn(1, 6, generator=generator),
            next_observations=torch.randn(1, 6, generator=generator),
            states=None,
            next_states=None,
            actions=torch.randint(0, 3, (1, 1), generator=generator),
            rewards=torch.randn(1, 1, generator=generator),
            terminated=torch.zeros(1, 1, dtype=torch.bool),
        )
    return made


def rescaler_of(agent):
    net = agent.q_network.net
    return confirmed(swr.SoftWeightRescaling(net, torch.zeros(1, 6), coefficient=0.05, keep_output=True))


def with_swr(folder):
    made = agent(folder)
    rescaler = rescaler_of(made)
    rescaler.attach(made.optimizer)
    made.checkpoint_modules["swr"] = rescaler
    return made, rescaler


def update(agent, first, last, after=None):
    for step in range(first, last):
        torch.manual_seed(step)  # the batch
        agent.update(timestep=step, timesteps=last)
        if after is not None:
            after()


def test_the_weights_equal_the_loop_by_hand_and_every_step_is_followed_once(tmp_path):
    attached, rescaler = with_swr(tmp_path / "a")
    update(attached, 0, 8)
    hand = agent(tmp_path / "b")
    by_hand = rescaler_of(hand)
    step = hand.optimizer.step

    def stepped(*args, **options):
        step(*args, **options)
        by_hand.step()

    hand.optimizer.step = stepped
    update(hand, 0, 8)
    assert same(attached.q_network, hand.q_network)
    assert same(attached.target_q_network, hand.target_q_network), "the target is updated after the rescale"
    assert steps(rescaler) == steps(by_hand) == [8]
    without = agent(tmp_path / "c")
    update(without, 0, 8)
    assert not same(attached.q_network, without.q_network), "the rescale did nothing"


def test_saved_with_the_agent_and_continued_equals_never_stopped(tmp_path):
    straight, rescaler = with_swr(tmp_path / "a")
    update(straight, 0, 5)
    straight.save(str(tmp_path / "agent.pt"))
    update(straight, 5, 8)
    resumed, again = with_swr(tmp_path / "b")
    with torch.no_grad():
        for p in resumed.q_network.parameters():
            p.mul_(2)
    again.rebase()  # other anchors, unless the state is restored
    resumed.load(str(tmp_path / "agent.pt"))
    update(resumed, 5, 8)
    assert same(straight.q_network, resumed.q_network)
    assert again.state_dict() == rescaler.state_dict()
