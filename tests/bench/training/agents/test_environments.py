"""Environments side by side, against gymnasium's single ones."""

import gymnasium
import torch

from swr.bench.data import load
from swr.bench.experiments.streams.changing_channels import Channels, channels
from swr.bench.training.agents.environments import LIMIT, NAME, Environments

PLAIN = Channels(torch.arange(4), torch.ones(4))


def lean(observations: torch.Tensor) -> torch.Tensor:
    """Push to where the pole leans: a policy that is neither good nor bad."""
    return (observations[:, 2] > 0).long()


def test_they_move_as_single_environments_do():
    environments = Environments(PLAIN, 5, copies=6)
    singles = [gymnasium.make(NAME) for _ in range(6)]
    states, alive = environments.observations.clone(), torch.ones(6, dtype=torch.bool)
    for single, state in zip(singles, states, strict=True):
        single.reset()
        single.unwrapped.state = state.double().numpy()
    lengths = torch.zeros(6)
    for _ in range(LIMIT):
        actions = lean(environments.observations)
        step = environments.step(actions)
        for i in alive.nonzero().flatten().tolist():
            found, reward, terminated, truncated, _ = singles[i].step(int(actions[i]))
            torch.testing.assert_close(environments.observations[i], torch.from_numpy(found), rtol=1e-4, atol=1e-5)
            assert (reward, terminated, terminated or truncated) == (step.rewards[i], step.terminated[i], step.ended[i])
        lengths += alive
        alive &= step.ended == 0
        if not alive.any():
            break
    assert 10 < lengths.min() < lengths.max() < LIMIT


def test_the_step_after_an_episode_is_no_transition():
    environments = Environments(PLAIN, 0, copies=3)
    ended, episodes = torch.zeros(3), 3
    skipped, rewards = 0, 0.0
    for _ in range(60):
        step = environments.step(torch.ones(3, dtype=torch.int64))
        assert torch.equal(step.acted, ended == 0)
        assert torch.equal(step.rewards, step.acted.float())
        begun = environments.observations[~step.acted]
        assert (begun.abs() <= 0.05).all()
        skipped, rewards = skipped + int((~step.acted).sum()), rewards + float(step.rewards.sum())
        ended = step.ended
        assert torch.equal(step.terminated, step.ended)  # always to one side: it falls long before it is cut off
    assert skipped > 3
    assert environments.mean_return == rewards / (episodes + skipped)


def test_an_episode_that_is_cut_off_did_not_fail():
    environments = Environments(PLAIN, 0, copies=1)
    environments._vector.unwrapped.x_threshold = 1e9
    environments._vector.unwrapped.theta_threshold_radians = 1e9
    steps = [environments.step(torch.tensor([i % 2])) for i in range(LIMIT)]
    assert [float(step.ended) for step in steps] == [0.0] * (LIMIT - 1) + [1.0]
    assert not any(step.terminated.any() for step in steps)


def test_an_agent_sees_the_same_states_through_the_channels_of_its_task():
    plain, view = Environments(PLAIN, 1), channels(0, 4)
    changed = Environments(view, 1)
    for i in range(30):
        actions = torch.full((len(plain.observations),), i % 2)
        plain.step(actions)
        changed.step(actions)
        assert torch.equal(changed.observations, view(plain.observations))
        assert not torch.equal(changed.observations, plain.observations)


def test_the_shape_that_the_networks_are_made_for_is_the_environments():
    data, environment = load("cartpole"), gymnasium.make(NAME)
    assert data.train.images.shape[1:].numel() == environment.observation_space.shape[0]
    assert data.classes == environment.action_space.n
    assert environment.spec.max_episode_steps == LIMIT
