"""Soft Weight Rescaling in stable-baselines3: attach to every optimizer of an algorithm, save and restore with the model.

Every output of these networks is a number with a meaning of its own, so that all of them keep their scale (C = 1):

- a value, of a critic or a Q-network, enters the targets of temporal differences. The argmax of DQN would not change with
  C, its targets would;
- the logits of a categorical policy are sampled from: C is a temperature, and PPO compares the probabilities of a policy
  with those of the same policy some steps ago;
- the mean of a Gaussian policy is an action; the log of its deviation, where a network computes it (SAC), is an exponent;
- under gSDE the last hidden layer is an output too, because the noise is multiplied by it;
- the actor of TD3 and DDPG ends in a Tanh, which holds C at 1 anyway.

Networks that share a features extractor are one module here, so that what one optimizer's weights lose the others' regain.

Target networks need no rescaler. A copy (DQN) has the rescaled weights. A Polyak average mixes weights from before and after
a rescale: if a layer was scaled by c and the next one by 1 / c, their product in the average is off by a factor of about
1 + (log c)² a (1 − a), a the share of the older weights. That is of second order in what the rescales of the last 1 / τ steps
amount to, and large only where one rescale moves much: the first one, which brings norms that start unequal to the balanced
anchors. A coefficient (``coefficient=1e-3``) spreads that over many steps.
"""

from __future__ import annotations

import copy
import warnings
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from swr.errors import ModelWarning, OptionError
from swr.hooks import Handle
from swr.integrations.common import Recipe, holders
from swr.rescaling import SoftWeightRescaling

if TYPE_CHECKING or find_spec("stable_baselines3") is not None:
    from stable_baselines3.common.base_class import BaseAlgorithm
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.policies import ActorCriticPolicy
    from stable_baselines3.common.preprocessing import get_action_dim
    from stable_baselines3.dqn.policies import DQNPolicy
    from stable_baselines3.sac.policies import Actor, SACPolicy
    from stable_baselines3.td3.policies import TD3Policy
else:
    raise ModuleNotFoundError(
        "swr.integrations.stable_baselines3 needs stable-baselines3; install it: pip install stable-baselines3",
        name="stable_baselines3",
    )

SAVED_AS = "swr"  # the attribute of the algorithm, which model.save() includes


class SWRCallback(BaseCallback):
    """Rescale the networks of an algorithm after every step of each of its optimizers.

    The networks are analysed when training starts, with an observation drawn from the observation space. Their norms at
    this time are the anchors, also for later calls of ``learn``. All outputs keep their scale. The state is in the file that
    ``model.save`` writes; ``learn`` with a callback continues from it after ``load``.

    >>> from stable_baselines3 import PPO
    >>> agent = PPO("MlpPolicy", "CartPole-v1", n_steps=16, batch_size=16, policy_kwargs={"activation_fn": nn.ReLU})
    >>> callback = SWRCallback(growth=1.5)
    >>> _ = agent.learn(16, callback=callback)
    >>> callback.rescaler
    SoftWeightRescaling(growth=1.5, balanced anchors: 6 of 6 weights, 8,896 entries; not attached)

    PPO and A2C use Tanh unless told otherwise, which holds every layer: with it there is nothing to rescale, and a warning
    says so.

    Args:
        rescaler: a :class:`swr.SoftWeightRescaling` of some of the networks, instead of the options; it attaches to the
            optimizers that hold parameters of its model. The way for algorithms that are not known here.
        verbose: as in stable-baselines3.
        options: the options of :class:`swr.SoftWeightRescaling` but example inputs, and ``keep_output``, which is True.

    Raises:
        OptionError: ``keep_output=False``, or a rescaler and options were both given.
    """

    rescaler: SoftWeightRescaling | None

    def __init__(self, *, rescaler: SoftWeightRescaling | None = None, verbose: int = 0, **options: Any) -> None:
        super().__init__(verbose)
        if not options.get("keep_output", True):
            raise OptionError(
                "keep_output=False would scale values, actions and the temperature of a policy, which all have a meaning of "
                "their own; to scale some network all the same, pass rescaler=swr.SoftWeightRescaling(network, inputs, …)."
            )
        self.rescaler = rescaler
        self._ready = rescaler is not None
        self._recipe = Recipe(None, options if self._ready else {**options, "keep_output": True}, ready=self._ready)

    def _on_training_start(self) -> None:
        """Analyse the networks, attach, and continue from a state that was saved with the model."""
        saved = vars(self.model).get(SAVED_AS)
        if isinstance(saved, _Attached):
            saved.detach()
        rescaler = self._prepare()
        state = saved.rescaler.state_dict() if isinstance(saved, _Attached) else saved
        if state is not None and not (isinstance(saved, _Attached) and saved.rescaler is rescaler):
            rescaler.load_state_dict(state)
        optimizers = holders(rescaler.model, _optimizers(self.model), type(self.model).__name__)
        attached = _Attached(rescaler, [rescaler.attach(optimizer) for optimizer in optimizers])
        setattr(self.model, SAVED_AS, attached)

    def _on_step(self) -> bool:
        """Nothing to do after a step of the environment."""
        return True

    def _on_training_end(self) -> None:
        """Detach; the anchors are kept for the next ``learn``."""
        vars(self.model)[SAVED_AS].detach()

    def _prepare(self) -> SoftWeightRescaling:
        policy = cast(nn.Module, self.model.policy)
        if self.rescaler is not None and (self._ready or _is_of(self.rescaler.model, policy)):
            return self.rescaler
        networks = _networks(self.model)
        self._recipe.example_inputs = networks.example_inputs()
        self.rescaler = self._recipe.make(networks)
        _say_if_tanh_holds_most(self.rescaler)
        return self.rescaler


class _Attached:
    """A rescaler and its attachments, kept by the algorithm; its pickle is the rescaler's state, a plain dict."""

    def __init__(self, rescaler: SoftWeightRescaling, handles: list[Handle]) -> None:
        self.rescaler, self.handles = rescaler, handles

    def detach(self) -> None:
        for handle in self.handles:
            handle.remove()

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (self.rescaler.state_dict(),)


class _Networks(nn.Module):
    """What the optimizers of a policy train, with a forward that returns every output and samples nothing."""

    def __init__(self, policy: Any) -> None:
        super().__init__()
        self.observations: Any = policy.observation_space

    def example_inputs(self) -> tuple[Any, ...]:
        """Two observations of the space, on the device of the networks; the space's own generator is not advanced."""
        space = copy.deepcopy(self.observations)
        space.seed(0)
        return (_on(next(self.parameters()).device, space.sample(), space.sample()),)


class _ActorCritic(_Networks):
    """PPO and A2C: one module with an action and a value head."""

    def __init__(self, policy: ActorCriticPolicy) -> None:
        super().__init__(policy)
        self.policy = policy

    def forward(self, observation: Any) -> tuple[Tensor, ...]:
        features: Any = self.policy.extract_features(observation)
        of_policy, of_value = features if isinstance(features, tuple) else (features, features)
        hidden = self.policy.mlp_extractor.forward_actor(of_policy)
        value = self.policy.value_net(self.policy.mlp_extractor.forward_critic(of_value))
        return (self.policy.action_net(hidden), value, *((hidden,) if self.policy.use_sde else ()))


class _QNetwork(_Networks):
    """DQN: the online network."""

    def __init__(self, policy: DQNPolicy) -> None:
        super().__init__(policy)
        self.q_net = policy.q_net

    def forward(self, observation: Any) -> Any:
        return self.q_net(observation)


class _ActorAndCritics(_Networks):
    """SAC, TD3 and DDPG: an actor and its critics, each with an optimizer."""

    def __init__(self, policy: SACPolicy | TD3Policy) -> None:
        super().__init__(policy)
        self.actor, self.critic = policy.actor, policy.critic
        self.actions = get_action_dim(policy.action_space)

    def example_inputs(self) -> tuple[Any, ...]:
        """An observation, and actions of zero: drawing some would advance the generator that explores."""
        return (*super().example_inputs(), torch.zeros(2, self.actions, device=next(self.parameters()).device))

    def forward(self, observation: Any, actions: Tensor) -> tuple[Tensor, ...]:
        if isinstance(self.actor, Actor):  # of SAC; its forward samples
            mean, log_std, more = self.actor.get_action_dist_params(observation)
            acted: tuple[Tensor, ...] = (mean, more["latent_sde"]) if self.actor.use_sde else (mean, log_std)
        else:
            acted = (self.actor(observation),)
        return (*acted, *self.critic(observation, actions))


def _networks(model: BaseAlgorithm) -> _Networks:
    policy: Any = model.policy
    kinds: dict[type, type[_Networks]] = {
        ActorCriticPolicy: _ActorCritic,
        DQNPolicy: _QNetwork,
        SACPolicy: _ActorAndCritics,
        TD3Policy: _ActorAndCritics,
    }
    for kind, networks in kinds.items():
        if isinstance(policy, kind) and not hasattr(policy, "lstm_actor"):  # of sb3-contrib, with a state
            return networks(policy)
    raise OptionError(
        f"the networks of a {type(policy).__name__} are not known here (PPO, A2C, DQN, SAC, TD3 and DDPG are); pass "
        "SWRCallback(rescaler=swr.SoftWeightRescaling(network, inputs, keep_output=True)) for the network to rescale."
    )


def _optimizers(model: BaseAlgorithm) -> list[Optimizer]:
    """All optimizers of an algorithm: its own, those of the policy and of the policy's networks, in a fixed order."""
    owners: list[Any] = [model, model.policy, *cast(nn.Module, model.policy).children()]
    found = [value for owner in owners for _, value in sorted(vars(owner).items()) if isinstance(value, Optimizer)]
    return list({id(optimizer): optimizer for optimizer in found}.values())


def _is_of(networks: nn.Module, policy: nn.Module) -> bool:
    mine = {id(p) for p in policy.parameters()}
    return all(id(p) in mine for p in networks.parameters())


def _on(device: torch.device, *samples: Any) -> Any:
    """Observations as a batch of tensors, also from a dictionary space."""
    if isinstance(samples[0], dict):
        return {key: _on(device, *(sample[key] for sample in samples)) for key in samples[0]}
    return torch.as_tensor(np.stack(samples), device=device)


def _say_if_tanh_holds_most(rescaler: SoftWeightRescaling) -> None:
    plan = rescaler.plan
    entries = {name: np.prod(plan.shapes[name]) for name in plan.weights}
    held = sum(entries[name] for name in plan.held)
    if 2 * held > sum(entries.values()) and any(isinstance(module, nn.Tanh) for module in rescaler.model.modules()):
        warnings.warn(
            f"Tanh holds {len(plan.held)} of the {len(entries)} weights of this policy: tanh(c x) is not c tanh(x), so the "
            'layers before it cannot be scaled. Tanh is the default of PPO and A2C; policy_kwargs={"activation_fn": '
            "torch.nn.ReLU} frees them.",
            ModelWarning,
            stacklevel=4,
        )
