"""TorchRL: what the hook finds, and what it refuses. The Trainer beside the plain loop is in tests/test_loops.py."""

import pytest
import torch
from torch import nn

import swr

pytest.importorskip("torchrl", reason="torchrl is not installed")

from tensordict.nn import TensorDictModule
from torchrl.modules import QValueActor, ValueOperator
from torchrl.objectives import DQNLoss, TD3Loss

from swr.integrations.torchrl import SWRHook


class Bare:
    """What the hook asks of a Trainer."""

    def __init__(self, optimizer, **modules):
        self.optimizer, self.optimization_stepper, self._modules = optimizer, None, modules

    def register_module(self, name, module):
        self._modules[name] = module


def network(inputs=4, outputs=2):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(inputs, 8), nn.ReLU(), nn.Linear(8, outputs))


def test_the_parameters_of_a_functional_loss_are_those_of_the_network():
    net = network()
    loss = DQNLoss(QValueActor(net, in_keys=["observation"], action_space="one-hot"), action_space="one-hot")
    optimizer = torch.optim.SGD(loss.parameters(), lr=0.1)
    hook = SWRHook(swr.SoftWeightRescaling(net, torch.zeros(1, 4), coefficient=0.5, keep_output=True))
    trainer = Bare(optimizer)
    hook.register(trainer)
    assert trainer._modules == {"swr": hook}
    norm = float(net[0].weight.detach().norm())
    net(torch.randn(8, 4)).square().sum().backward()
    optimizer.step()
    assert hook.state_dict()["optimizers"][0]["steps"] == 1
    assert float(net[0].weight.detach().norm()) != norm


def test_networks_that_a_loss_has_stacked_are_refused():
    actor = TensorDictModule(network(4, 1), in_keys=["observation"], out_keys=["action"])
    critic = network(5, 1)

    class Joined(nn.Module):
        def __init__(self):
            super().__init__()
            self.critic = critic

        def forward(self, observation, action):
            return self.critic(torch.cat([observation, action], -1))

    value = ValueOperator(Joined(), in_keys=["observation", "action"], out_keys=["state_action_value"])
    loss = TD3Loss(actor, value, bounds=(-1.0, 1.0), num_qvalue_nets=2)
    hook = SWRHook(swr.SoftWeightRescaling(critic, torch.zeros(1, 5), keep_output=True))
    with pytest.raises(swr.AttachError, match="none of the 1 optimizers of the Trainer holds parameters of Sequential"):
        hook.register(Bare(torch.optim.SGD(loss.parameters(), lr=0.1)))


def test_optimizers_of_registered_hooks_are_found():
    class Stepper:
        def __init__(self, optimizer):
            self.optimizer_of_actor = optimizer

    net = network()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    hook = SWRHook(swr.SoftWeightRescaling(net, torch.zeros(1, 4), keep_output=True))
    hook.register(Bare(None, stepper=Stepper(optimizer)))
    assert [handle.optimizer for handle in hook.handles] == [optimizer]
