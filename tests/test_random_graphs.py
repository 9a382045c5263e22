"""Networks that nobody designed: whatever is put together from the pieces keeps its function."""

import copy
import math
import random

import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import swr
from swr.algebra.blocks import tensor_of
from zoo import stir, without_epsilon
from zoo.pieces import BATCH, LENGTH, ONE_CHAIN, RESTRICTING, STRAIGHT, TWO_CHAINS, Chain, Piece, RandomNetwork
from zoo.probe import floating_outputs

EXACT = 1e-9
STEADY = settings(
    derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def chains(depth: int) -> st.SearchStrategy[Chain]:
    return st.lists(pieces(depth), min_size=1, max_size=4).map(tuple)


def pieces(depth: int) -> st.SearchStrategy[Piece]:
    names = st.sampled_from([*STRAIGHT, *RESTRICTING])
    if depth == 0:
        return names
    inner = chains(depth - 1)
    one = st.tuples(st.sampled_from(list(ONE_CHAIN)), inner)
    two = st.tuples(st.sampled_from([*TWO_CHAINS, "concatenate", "split"]), inner, inner)
    return st.one_of(names, one, two)


def inputs() -> tuple[Tensor]:
    return (torch.randn(BATCH, 3, LENGTH, dtype=torch.float64),)


def build(chain: Chain, second_head: bool, seed: int) -> nn.Module:
    """A float64 model in training mode with running statistics that are not trivial, and no epsilon."""
    torch.manual_seed(seed)
    model = RandomNetwork(chain, second_head).double().train()
    stir(model)
    without_epsilon(model)
    with torch.no_grad():
        model(*inputs())
        model(*inputs())
    return model


@torch.no_grad()
def outputs(model: nn.Module, batch: tuple[Tensor, ...], mode: str) -> list[Tensor]:
    """Of a copy, since a forward in training mode changes the running statistics."""
    return floating_outputs(copy.deepcopy(model).train(mode == "train"), batch)


def deviation(after: list[Tensor], before: list[Tensor], constant: float) -> float:
    return max(
        ((new - constant * old).abs().max() / (constant * old).abs().max()).item()
        for new, old in zip(after, before, strict=True)
    )


def is_well_conditioned(model: nn.Module, batch: tuple[Tensor, ...], mode: str) -> bool:
    """Whether changes near the rounding error stay small: not so behind the norm of a constant or the square of 1e9."""
    disturbed = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in disturbed.parameters():
            parameter.mul_(1 + 1e-13 * torch.randn_like(parameter))
    before = outputs(model, batch, mode)
    return all(bool(out.isfinite().all() and out.any()) for out in before) and (
        deviation(outputs(disturbed, batch, mode), before, 1.0) < 1e-10
    )


def check_function_is_preserved(model: nn.Module, batch: tuple[Tensor, ...], seed: int) -> swr.ScalePlan:
    plan = swr.analyze(model, inputs())
    weights = [*plan.free, *plan.coupled, *plan.held]
    uniform = random.Random(seed).uniform
    scalers = {name: math.exp(uniform(-0.7, 0.7)) for name in weights}
    rescaled = copy.deepcopy(model)
    constant = swr.rescale(rescaled, plan, scalers)
    for mode in ("train", "eval"):
        assert deviation(outputs(rescaled, batch, mode), outputs(model, batch, mode), constant) <= EXACT
    old, new = dict(model.named_parameters()), dict(rescaled.named_parameters())
    for name in plan.free:
        ratio = tensor_of(name, new) / tensor_of(name, old)
        torch.testing.assert_close(ratio, torch.full_like(ratio, scalers[name]), rtol=1e-12, atol=0)
    for name in plan.held:
        assert torch.equal(tensor_of(name, new), tensor_of(name, old))
    return plan


def check_graph(chain: Chain, second_head: bool, seed: int) -> None:
    model = build(chain, second_head, seed)
    batch = inputs()
    assume(all(is_well_conditioned(model, batch, mode) for mode in ("train", "eval")))
    plan = check_function_is_preserved(model, batch, seed)
    assert second_head or "head.weight" in plan.free


random_graphs = given(chain=chains(2), second_head=st.booleans(), seed=st.integers(0, 99))


@settings(STEADY, max_examples=50)
@random_graphs
def test_random_graphs_keep_their_function(chain: Chain, second_head: bool, seed: int) -> None:
    check_graph(chain, second_head, seed)


@pytest.mark.slow
@settings(STEADY, max_examples=400)
@random_graphs
def test_many_random_graphs_keep_their_function(chain: Chain, second_head: bool, seed: int) -> None:
    check_graph(chain, second_head, seed)


@settings(STEADY, max_examples=20)
@given(chain=st.lists(st.sampled_from(list(STRAIGHT)), min_size=1, max_size=8).map(tuple))
def test_every_weight_of_a_straight_chain_is_free(chain: Chain) -> None:
    model = RandomNetwork(chain, second_head=False).double()
    plan = swr.analyze(model, inputs())
    assert not plan.coupled
    assert not plan.held
    assert {"enter.weight", "head.weight"} <= set(plan.free)
    assert not plan.unused


@pytest.mark.parametrize("name", [*STRAIGHT, *RESTRICTING])
def test_each_piece_alone_keeps_the_function(name: str) -> None:
    model, batch = build((name,), second_head=False, seed=0), inputs()
    assert is_well_conditioned(model, batch, "train")
    assert is_well_conditioned(model, batch, "eval")
    check_function_is_preserved(model, batch, seed=0)
