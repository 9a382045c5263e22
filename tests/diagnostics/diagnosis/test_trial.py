"""One training of one network leaves no trace but its curve."""

import random

import torch
import torch.nn.functional as F
from torch import nn

from diagnostics.diagnosis.known import batches, curve, fingerprint, fresh
from swr.diagnostics.diagnosis.trial import Curve, adam, seeded, train


def run(network, seed=0, steps=60, lr=3e-3, task=None):
    return train(network, task or batches(), F.cross_entropy, adam, lr=lr, steps=steps, seed=seed, tick=lambda: None)


def test_the_loss_falls_and_the_network_stays_as_it_was():
    network = fresh(0).eval()
    before = fingerprint(network)
    found = run(network, steps=200)
    assert fingerprint(network) == before
    assert len(found.losses) == 200
    assert found.result < found.losses[0] - 0.5
    assert set(found.updates) == {"0.weight", "2.weight", "4.weight"}


def test_the_same_seed_gives_the_same_curve_also_with_dropout_and_another_seed_another():
    network = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Dropout(0.5), nn.Linear(32, 4))
    one, same, other = (run(network, seed).losses for seed in (0, 0, 1))
    assert one == same != other


def test_frozen_parameters_stay_frozen_in_the_copy():
    network = fresh(0)
    network[0].weight.requires_grad_(False)
    assert run(network).updates["0.weight"] == 0
    assert run(network).updates["2.weight"] > 0


def test_a_diverged_training_has_an_infinite_result():
    assert Curve((1.0, float("nan")), {}).result == float("inf")
    assert curve(2.0, 0.5).result < 1


def test_random_states_of_torch_and_python_are_restored_and_seeded():
    numpy_state = torch.get_rng_state(), random.getstate()
    with seeded(5, fresh(0)):
        one = torch.rand(1).item(), random.random()
    with seeded(5, fresh(0)):
        assert (torch.rand(1).item(), random.random()) == one
    assert torch.equal(torch.get_rng_state(), numpy_state[0])
    assert random.getstate() == numpy_state[1]
