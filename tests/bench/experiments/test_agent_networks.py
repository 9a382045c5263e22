"""The networks of agents: what a rescaling method may do to each."""

import pytest
import torch

import swr
from swr.bench.experiments.agent_networks import VALUE, networks
from swr.bench.experiments.models import MODELS, build

AGENTS = [name for name, model in MODELS.items() if model.agent is not None]


@pytest.mark.parametrize("name", AGENTS)
def test_a_budget_leaves_values_as_they_are_and_may_scale_logits(name):
    torch.manual_seed(0)
    model, inputs = build(name, (1, 1, 4), 2), torch.randn(5, 4)
    for part, network in networks(model).items():
        rescaler = swr.SoftWeightRescaling(network, inputs, growth=0.5)
        before, weights = network(inputs), [p.detach().clone() for p in network.parameters()]
        rescaler.step()
        after = network(inputs)
        assert any(not torch.equal(p, old) for p, old in zip(network.parameters(), weights, strict=True))
        if part == "actor":
            factor = (after / before).mean()
            assert factor < 0.8
            torch.testing.assert_close(after, factor * before, rtol=5e-3, atol=1e-4)  # LayerNorm's ε is no part of the algebra
        else:
            torch.testing.assert_close(after, before, rtol=0, atol=2e-3)
            assert (before - VALUE).abs().max() > 0.01


def test_the_variants_with_layer_norm_have_it_before_every_relu():
    for plain, normalised in (("dqn", "dqnln"), ("ppo", "ppoln")):
        for one, other in zip(
            networks(build(plain, (1, 1, 4), 2)).values(), networks(build(normalised, (1, 1, 4), 2)).values(), strict=True
        ):
            kinds = [type(layer).__name__ for layer in other]
            assert all(kinds[i - 1] == "LayerNorm" for i, kind in enumerate(kinds) if kind == "ReLU")
            assert [kind for kind in kinds if kind != "LayerNorm"] == [type(layer).__name__ for layer in one]


def test_values_start_at_half_of_the_largest():
    torch.manual_seed(0)
    q = build("dqn", (1, 1, 4), 2)["q"]
    assert pytest.approx(50) == VALUE
    assert (q(torch.randn(20, 4)) - 50).abs().max() < 1
