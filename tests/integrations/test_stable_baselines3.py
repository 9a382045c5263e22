"""stable-baselines3: the weights of a loop written by hand, one rescale per real step, outputs kept, exact resume."""

import copy
from functools import cache, partial

import numpy as np
import pytest
import torch
from plain_loop import steps
from torch import nn

import swr
from nets import confirmed

sb3 = pytest.importorskip("stable_baselines3", reason="stable-baselines3 is not installed")

import gymnasium as gym  # noqa: E402

from swr.integrations import stable_baselines3 as integration  # noqa: E402
from swr.integrations.stable_baselines3 import SWRCallback  # noqa: E402

AIM = {"coefficient": 0.05}
RELU = {"activation_fn": nn.ReLU, "net_arch": [8, 8]}
ON_POLICY = {"n_steps": 8}
OFF_POLICY = {"learning_starts": 4, "batch_size": 8, "train_freq": 2, "buffer_size": 100}
START, MORE = 40, 24


class Head(nn.Module):
    """Several layers on one body, as in the actor of SAC."""

    def __init__(self, body, *heads):
        super().__init__()
        self.body, self.heads = body, nn.ModuleList(heads)

    def forward(self, x):
        return tuple(head(self.body(x)) for head in self.heads)


def on_policy(policy):
    body = policy.mlp_extractor
    return {policy.optimizer: [[*body.policy_net, policy.action_net], [*body.value_net, policy.value_net]]}


def q_network(policy):
    return {policy.optimizer: [policy.q_net.q_net]}


def sac(policy):
    actor, critics = policy.actor, policy.critic.q_networks
    return {actor.optimizer: [Head(actor.latent_pi, actor.mu, actor.log_std)], policy.critic.optimizer: critics}


def td3(policy):
    return {policy.actor.optimizer: [policy.actor.mu], policy.critic.optimizer: policy.critic.q_networks}


ALGORITHMS = {
    "PPO": (sb3.PPO, "CartPole-v1", {**ON_POLICY, "batch_size": 4, "n_epochs": 2}, on_policy),
    "PPO, continuous": (sb3.PPO, "Pendulum-v1", {**ON_POLICY, "batch_size": 4, "n_epochs": 2}, on_policy),
    "A2C": (sb3.A2C, "CartPole-v1", ON_POLICY, on_policy),
    "DQN": (sb3.DQN, "CartPole-v1", {**OFF_POLICY, "target_update_interval": 8}, q_network),
    "SAC": (sb3.SAC, "Pendulum-v1", OFF_POLICY, sac),
    "TD3": (sb3.TD3, "Pendulum-v1", OFF_POLICY, td3),
    "DDPG": (sb3.DDPG, "Pendulum-v1", OFF_POLICY, td3),
}


def made(make, environment, *, policy="MlpPolicy", policy_kwargs=RELU, **options):
    return make(policy, environment, seed=0, device="cpu", policy_kwargs=dict(policy_kwargs), **options)


def agent(name):
    make, environment, options, _ = ALGORITHMS[name]
    return made(make, environment, **options)


@cache
def plan(name):
    """Of the networks; made once, since tracing takes longer than training here."""
    networks = integration._networks(agent(name))
    return swr.analyze(networks, networks.example_inputs())


def callback_for(name):
    return SWRCallback(plan=plan(name), **AIM)


def weights_of(model):
    return {name: p.detach().clone() for name, p in model.policy.named_parameters()}


def same(weights, others):
    assert set(weights) == set(others)
    return all(torch.equal(weights[name], others[name]) for name in weights)


def by_hand(name, model):
    """After each step of an optimizer, a rescale of each of its networks; returns the running number of steps of each."""
    counts = []
    for optimizer, networks in ALGORITHMS[name][3](model.policy).items():
        rescalers = []
        for network in networks:
            network = nn.Sequential(*network) if isinstance(network, list) else network
            known = PLANS.setdefault(str(network), None) or swr.analyze(network, torch.zeros(1, width(network)))
            PLANS[str(network)] = known
            rescalers.append(confirmed(swr.SoftWeightRescaling(network, plan=known, keep_output=True, **AIM)))
        counts.append([0])
        optimizer.step = partial(_step, optimizer.step, rescalers, counts[-1])
    return counts


PLANS = {}  # by the text of a network


def width(network):
    return next(network.parameters()).shape[1]


def _step(step, rescalers, count):
    step()
    count[0] += 1
    for rescaler in rescalers:
        rescaler.step()


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_weights_equal_the_loop_by_hand_and_every_step_is_followed_once(name):
    model, callback = agent(name), callback_for(name)
    model.learn(START, callback=callback)
    hand = agent(name)
    counts = by_hand(name, hand)
    hand.learn(START)
    assert same(weights_of(model), weights_of(hand))
    assert steps(callback.rescaler) == [count for (count,) in counts]
    assert all(count >= 5 for (count,) in counts)
    without = agent(name)
    without.learn(START)
    assert not same(weights_of(model), weights_of(without)), "the rescale did nothing"


@pytest.mark.parametrize("name", ALGORITHMS)
def test_saved_with_the_model_and_continued_equals_never_stopped(name, tmp_path):
    def go_on(model, callback):
        model.set_random_seed(7)  # neither the environment nor the generators are in the file
        model._last_obs = None
        model.learn(MORE, callback=callback, reset_num_timesteps=False)
        return weights_of(model)

    def loaded():
        model = ALGORITHMS[name][0].load(tmp_path / "model", env=gym.make(ALGORITHMS[name][1]), device="cpu")
        if hasattr(model, "load_replay_buffer"):
            model.load_replay_buffer(tmp_path / "buffer")
        return model

    model, callback = agent(name), callback_for(name)
    model.learn(START, callback=callback)
    model.save(tmp_path / "model")
    if hasattr(model, "save_replay_buffer"):
        model.save_replay_buffer(tmp_path / "buffer")
    straight = go_on(model, callback)

    again, resumed = callback_for(name), loaded()
    assert resumed.swr["anchors"] == callback.rescaler.state_dict()["anchors"]
    assert same(straight, go_on(resumed, again))
    assert again.rescaler.state_dict() == callback.rescaler.state_dict()

    forgotten = loaded()
    del forgotten.swr
    assert not same(straight, go_on(forgotten, callback_for(name))), "the anchors do not matter here"


def outputs(networks):
    found = networks(*networks.example_inputs())
    return found if isinstance(found, tuple) else (found,)


IMAGE = gym.spaces.Box(0, 255, (3, 36, 36), np.uint8)
DICTIONARY = gym.spaces.Dict({"where": gym.spaces.Box(-1, 1, (3,), np.float32), "what": gym.spaces.Discrete(4)})


class Anywhere(gym.Env):
    """Some observation space; episodes of five steps of noise."""

    def __init__(self, observation_space, action_space):
        self.observation_space, self.action_space, self.at = observation_space, action_space, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        self.at += 1
        return self.observation_space.sample(), 1.0, self.at == 5, False, {}


BOX, DISCRETE = gym.spaces.Box(-1, 1, (2,), np.float32), gym.spaces.Discrete(3)
KINDS = {
    **{name: partial(agent, name) for name in ALGORITHMS},
    "PPO, gSDE": partial(made, sb3.PPO, "Pendulum-v1", use_sde=True),
    "SAC, gSDE": partial(made, sb3.SAC, "Pendulum-v1", use_sde=True, buffer_size=10),
    "PPO, extractors apart": partial(
        made,
        sb3.PPO,
        Anywhere(DICTIONARY, gym.spaces.MultiDiscrete([2, 3])),
        policy="MultiInputPolicy",
        policy_kwargs={**RELU, "share_features_extractor": False},
    ),
    "DQN, images": partial(made, sb3.DQN, Anywhere(IMAGE, DISCRETE), policy="CnnPolicy", buffer_size=10),
    "SAC, images, one extractor": partial(
        made,
        sb3.SAC,
        Anywhere(IMAGE, BOX),
        policy="CnnPolicy",
        buffer_size=10,
        policy_kwargs={"net_arch": [8], "share_features_extractor": True},
    ),
}


@pytest.mark.parametrize("name", KINDS)
def test_a_rescale_moves_the_weights_and_no_output(name):
    networks = integration._networks(KINDS[name]())
    rescaler = confirmed(swr.SoftWeightRescaling(networks, networks.example_inputs(), coefficient=0.5, keep_output=True))
    with torch.no_grad():
        for k, weight in enumerate(rescaler.norms()):
            networks.get_parameter(weight).mul_((1, 2, 0.7)[k % 3])
        before, norms = outputs(networks), rescaler.norms()
        rescaler.step()
        for old, new in zip(before, outputs(networks), strict=True):
            torch.testing.assert_close(old, new, rtol=1e-4, atol=1e-6)
    moved = [abs(norm / norms[weight] - 1) for weight, norm in rescaler.norms().items()]
    assert max(moved) > 0.05
    assert min(float(output.abs().max()) for output in before) > 0, "nothing to see in an output"


def test_analysing_advances_no_generator():
    model = agent("SAC")
    spaces = model.observation_space, model.action_space
    states = [copy.deepcopy(space.np_random.bit_generator.state) for space in spaces]
    drawn = torch.get_rng_state()
    integration._networks(model).example_inputs()
    assert [space.np_random.bit_generator.state for space in spaces] == states
    assert torch.equal(torch.get_rng_state(), drawn)


@pytest.mark.parametrize("name", ["PPO", "A2C"])
def test_tanh_the_default_of_actor_critics_holds_everything_and_that_is_said(name):
    make, environment, options, _ = ALGORITHMS[name]
    model = made(make, environment, policy_kwargs={}, **options)
    callback = SWRCallback()
    with pytest.warns(swr.ModelWarning) as caught:
        model.learn(8, callback=callback)
    said = [str(each.message) for each in caught]
    assert any(
        "Tanh holds 6 of the 6 weights" in text and 'policy_kwargs={"activation_fn": torch.nn.ReLU}' in text for text in said
    )
    assert any("only 0 of 6 weight tensors" in text for text in said)


def test_a_second_learn_keeps_the_anchors_and_attaches_once():
    model, callback = agent("DQN"), callback_for("DQN")
    model.learn(START, callback=callback)
    first, made = callback.rescaler, steps(callback.rescaler)
    anchors = first.anchors()
    model.policy.optimizer.step()
    assert steps(first) == made, "still attached after training"
    model.learn(START, callback=callback)
    assert callback.rescaler is first
    assert first.anchors() == anchors
    assert steps(first) > made


def test_another_callback_goes_on_with_the_anchors_also_after_training_that_raised():
    class Interrupt(sb3.common.callbacks.BaseCallback):
        def _on_step(self):
            if self.n_calls == 20:
                raise KeyboardInterrupt
            return True

    model, first, second = agent("DQN"), callback_for("DQN"), callback_for("DQN")
    with pytest.raises(KeyboardInterrupt):
        model.learn(START, callback=[first, Interrupt()])
    made = steps(first.rescaler)
    model.learn(START, callback=second)
    assert second.rescaler.anchors() == first.rescaler.anchors()
    assert steps(first.rescaler) == made
    assert steps(second.rescaler) > made


def test_an_agent_that_was_saved_with_swr_loads_without_it_and_predicts(tmp_path):
    model = agent("DQN")
    model.learn(START, callback=callback_for("DQN"))
    model.save(tmp_path / "model")
    loaded = sb3.DQN.load(tmp_path / "model", device="cpu")
    assert type(loaded.swr) is dict
    observation = model.observation_space.sample()
    assert loaded.predict(observation, deterministic=True)[0] == model.predict(observation, deterministic=True)[0]


def test_a_ready_rescaler_attaches_to_the_optimizer_that_holds_its_network():
    model = agent("SAC")
    rescaler = swr.SoftWeightRescaling(model.critic.qf0, torch.zeros(1, 4), keep_output=True, **AIM)
    model.learn(START, callback=SWRCallback(rescaler=rescaler))
    assert steps(rescaler) == [model._n_updates]
    assert model._n_updates > 5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"keep_output": False}, "keep_output=False would scale values, actions and the temperature"),
        ({"rescaler": object(), "coefficient": 0.1}, "pass either rescaler or coefficient"),
    ],
)
def test_options_that_cannot_be_are_refused(options, message):
    with pytest.raises(swr.OptionError, match=message):
        SWRCallback(**options)


def test_a_policy_that_is_not_known_is_refused_with_the_way_out():
    class Other(nn.Module):
        pass

    model = agent("DQN")
    model.policy = Other()
    with pytest.raises(swr.OptionError, match=r"networks of a Other are not known here.*rescaler=swr\.SoftWeightRescaling"):
        integration._networks(model)


def test_a_polyak_average_over_rescales_is_off_by_the_second_order_only():
    """The target's function, beside that of an average in which the older weights were rescaled too."""

    def error(log_c, share=0.5):
        torch.manual_seed(0)
        x = torch.randn(64, 4, dtype=torch.float64)
        net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1, bias=False)).double()
        moved, target = copy.deepcopy(net), copy.deepcopy(net)
        with torch.no_grad():
            for p in moved[0].parameters():
                p.mul_(np.exp(log_c))
            moved[2].weight.mul_(np.exp(-log_c))
            torch.testing.assert_close(moved(x), net(x))
            for mine, now in zip(target.parameters(), moved.parameters(), strict=True):
                mine.lerp_(now, 1 - share)
            return float((target(x) / net(x) - 1).abs().max())

    assert error(0.0) < 1e-12
    assert error(1e-2) == pytest.approx(1e-4 / 4, rel=0.05)  # (log c)² a (1 − a)
    assert error(1e-3) == pytest.approx(1e-6 / 4, rel=0.05)


def test_the_target_of_sac_is_within_a_tenth_of_the_average_that_follows_the_rescales():
    """Beside sb3's target, one whose weights are rescaled whenever those of the critic are, so that the average is exact."""
    model = made(sb3.SAC, "Pendulum-v1", learning_starts=20, batch_size=32, buffer_size=1000)
    critic, exact, before, moved = model.critic, copy.deepcopy(model.critic_target), [], []

    def remember(*_):
        before[:] = [p.detach().clone() for p in critic.parameters()]

    @torch.no_grad()
    def follow(*_):
        for mine, now, was in zip(exact.parameters(), critic.parameters(), before, strict=True):
            factor = now.norm() / was.norm() if float(was.norm()) > 0 else torch.ones(())
            moved.append(abs(float(factor) - 1))
            mine.mul_(factor).lerp_(now, model.tau)

    class Follow(sb3.common.callbacks.BaseCallback):
        def _on_training_start(self):
            critic.optimizer.register_step_post_hook(follow)

        def _on_step(self):
            return True

    critic.optimizer.register_step_post_hook(remember)  # hooks run in this order: before the rescale, the rescale, after it
    model.learn(100, callback=[SWRCallback(growth=1.0), Follow()])
    batch = model.replay_buffer.sample(256)
    with torch.no_grad():
        pairs = [network(batch.observations, batch.actions)[0] for network in (model.critic_target, exact)]
    error = float((pairs[0] - pairs[1]).abs().max() / pairs[1].abs().max())
    assert max(moved) > 0.2, "the first rescale balances the norms: the largest there is"
    assert 1e-3 < error < 0.1
