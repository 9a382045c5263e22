"""The networks of reinforcement-learning agents: one for the values of actions (DQN), or an actor and a critic (PPO).

Two hidden layers of 64 units, ReLU, PyTorch's default initialisation; ``dqnln`` and ``ppoln`` have LayerNorm before each ReLU.

A value's scale is its meaning, a policy's is not. A network of values ends with a constant that is added,

    v(x) = V + f(x),   V = 1 / (2 (1 - γ)), half of the largest value that rewards of at most 1 can add up to,

so that f cannot be multiplied by anything: the scale plan finds C = 1, and a method that rescales moves norm between the layers
only. The actor's logits may be multiplied by a constant C: C < 1 raises the entropy of the policy and leaves the order of the
actions as it is. Actor and critic are networks of their own because all outputs of one network share one C.
"""

from __future__ import annotations

from math import prod

from torch import Tensor, nn

GAMMA = 0.99
"""γ, the discount of future rewards"""
VALUE = 0.5 / (1 - GAMMA)
"""V"""
HIDDEN = 64


class Shift(nn.Module):
    """Adds a constant."""

    def __init__(self, constant: float) -> None:
        super().__init__()
        self.constant = constant

    def forward(self, inputs: Tensor) -> Tensor:
        """x + V."""
        return inputs + self.constant

    def extra_repr(self) -> str:
        """For ``print``."""
        return f"{self.constant:g}"


def dqn(shape: tuple[int, ...], actions: int, *, normalised: bool = False) -> nn.ModuleDict:
    """The value of each action.

    >>> list(dqn((1, 1, 4), 2))
    ['q']
    """
    return nn.ModuleDict({"q": _mlp(shape, actions, normalised).append(Shift(VALUE))})


def ppo(shape: tuple[int, ...], actions: int, *, normalised: bool = False) -> nn.ModuleDict:
    """The logits of the actions, and the value of the state.

    >>> list(ppo((1, 1, 4), 2))
    ['actor', 'critic']
    """
    critic = _mlp(shape, 1, normalised).append(Shift(VALUE))
    return nn.ModuleDict({"actor": _mlp(shape, actions, normalised), "critic": critic})


def dqnln(shape: tuple[int, ...], actions: int) -> nn.ModuleDict:
    """The same with LayerNorm."""
    return dqn(shape, actions, normalised=True)


def ppoln(shape: tuple[int, ...], actions: int) -> nn.ModuleDict:
    """The same with LayerNorm."""
    return ppo(shape, actions, normalised=True)


def networks(model: nn.Module) -> dict[str, nn.Module]:
    """What is trained, by name: the networks of an agent, or the one model under no name.

    >>> list(networks(nn.Linear(2, 1)))
    ['']
    """
    return dict(model.items()) if isinstance(model, nn.ModuleDict) else {"": model}


def _mlp(shape: tuple[int, ...], outputs: int, normalised: bool) -> nn.Sequential:
    layers: list[nn.Module] = [nn.Flatten()]
    width = prod(shape)
    for _ in range(2):
        layers += [nn.Linear(width, HIDDEN), *([nn.LayerNorm(HIDDEN)] if normalised else []), nn.ReLU()]
        width = HIDDEN
    return nn.Sequential(*layers, nn.Linear(width, outputs))
