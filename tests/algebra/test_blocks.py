"""Blocks of a parameter: their names and views, and what rescaling makes of them."""

import copy

import pytest
import torch
from torch import nn

import swr
from swr.algebra.blocks import Block, Shapes, parameter_of, tensor_of
from swr.algebra.fused import join_tied, split_fused
from swr.algebra.graph import trace
from swr.algebra.plan import ScalePlan, plan_of_graph
from swr.probe import as_args


def analyze(model, inputs, inhomogeneous="hold"):
    """The plan of the graph whose fused parameters are split."""
    trained = {name for name, p in model.named_parameters() if p.requires_grad}
    traced = split_fused(trace(model, as_args(inputs)), trained)
    return join_tied(plan_of_graph(model, traced, inhomogeneous), plan_of_graph(model, traced))


@pytest.mark.parametrize("block", [Block("a.weight", 0, 0, 4), Block("weight", 1, 4, 12), Block("x.0.w", 2, 3, 5)])
def test_a_block_is_known_by_its_name(block):
    assert Block.named(block.name) == block
    assert parameter_of(block.name) == block.parameter
    shape = (7, 13, 5)
    tensor = torch.arange(7 * 13 * 5).view(shape)
    index = block.name.removeprefix(block.parameter)
    assert torch.equal(block.of(tensor), eval(f"tensor{index}"))
    assert Shapes({block.parameter: shape})[block.name] == tuple(block.of(tensor).shape)


def test_other_names_are_whole_tensors():
    assert Block.named("weight") is None
    assert Block.named("weight[0]") is None
    assert parameter_of("weight[a:b]") == "weight[a:b]"
    with pytest.raises(KeyError):
        Shapes({"weight": (3,)})["other[0:2]"]


def test_a_view_of_a_block_changes_the_parameter():
    layer = nn.Linear(4, 6)
    parameters = dict(layer.named_parameters())
    before = layer.weight.detach().clone()
    tensor_of("weight[2:4]", parameters).mul_(2)
    assert torch.equal(layer.weight[2:4], 2 * before[2:4])
    assert torch.equal(layer.weight[:2], before[:2])
    assert tensor_of("weight", parameters) is layer.weight


def attention():
    torch.manual_seed(0)
    model = nn.MultiheadAttention(8, 2, batch_first=True).double()
    nn.init.normal_(model.in_proj_bias)
    x = torch.randn(3, 5, 8, dtype=torch.float64)
    return model, (x, x, x)


QUERIES, KEYS, VALUES = (f"in_proj_weight[{8 * i}:{8 * i + 8}]" for i in range(3))


def test_queries_and_keys_move_against_each_other():
    model, inputs = attention()
    before, output = copy.deepcopy(model), model(*inputs)[0]
    plan = analyze(model, inputs)
    constant = swr.rescale(model, plan, {QUERIES: 4.0})
    torch.testing.assert_close(model.in_proj_weight[:8], 2 * before.in_proj_weight[:8])
    torch.testing.assert_close(model.in_proj_weight[8:16], before.in_proj_weight[8:16] / 2)
    torch.testing.assert_close(model.in_proj_weight[16:], before.in_proj_weight[16:])
    torch.testing.assert_close(model.in_proj_bias[:8], 2 * before.in_proj_bias[:8])
    torch.testing.assert_close(model(*inputs)[0], constant * output)


def test_the_name_of_the_parameter_stands_for_its_blocks():
    model, inputs = attention()
    plan = analyze(model, inputs)
    other = copy.deepcopy(model)
    swr.rescale(model, plan, {"in_proj_weight": 0.5})
    swr.rescale(other, plan, {QUERIES: 0.5, KEYS: 0.5, VALUES: 0.5})
    assert torch.equal(model.in_proj_weight, other.in_proj_weight)
    assert not torch.equal(model.in_proj_weight, attention()[0].in_proj_weight)
    with pytest.raises(swr.errors.PlanError, match="is not a weight of the plan"):
        swr.rescale(model, plan, {"in_proj_weight[0:9]": 0.5})


def test_a_plan_with_blocks_survives_json_and_belongs_to_its_model():
    model, inputs = attention()
    plan = analyze(model, inputs)
    again = ScalePlan.from_json(plan.to_json())
    assert again == plan
    assert again.describe() == plan.describe()
    assert plan.unused == ()
    assert again.shapes[QUERIES] == (8, 8)
    plan.check(model)
    with pytest.raises(swr.errors.PlanError, match="another shape"):
        plan.check(nn.MultiheadAttention(4, 2))
