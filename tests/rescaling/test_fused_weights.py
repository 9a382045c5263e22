"""A rescaler on networks whose queries, keys and values are one matrix."""

import copy

import pytest
import torch
from torch import nn
from torch.distributed.fsdp import fully_shard

import swr
from loops import ranks
from nets import gpt2
from swr.diagnostics import layer_norms
from swr.diagnostics.layer_norms import anchors_of

QUERIES, KEYS, VALUES = (f"in_proj_weight[{8 * i}:{8 * i + 8}]" for i in range(3))


def attention():
    torch.manual_seed(0)
    model = nn.MultiheadAttention(8, 2, batch_first=True).double()
    nn.init.normal_(model.in_proj_bias)
    x = torch.randn(3, 5, 8, dtype=torch.float64)
    return model, (x, x, x)


def pulled(model, inputs, **options):
    """A rescaler whose anchors are meant, although the queries have doubled since."""
    rescaler = swr.SoftWeightRescaling(model, inputs, **(options or {"coefficient": 1.0}))
    with torch.no_grad():
        model.in_proj_weight[:8] *= 2
    rescaler.load_state_dict(rescaler.state_dict())
    return rescaler


def test_norms_are_of_the_blocks_and_the_function_is_kept():
    model, inputs = attention()
    rescaler = pulled(model, inputs)
    whole = layer_norms(model)["in_proj_weight"]
    norms = rescaler.norms()
    assert sum(norms[name] ** 2 for name in (QUERIES, KEYS, VALUES)) ** 0.5 == pytest.approx(whole)
    before, output = copy.deepcopy(model), model(*inputs)[0]
    rescaler.step()
    torch.testing.assert_close(model(*inputs)[0], output)
    torch.testing.assert_close(model.in_proj_weight[:8], before.in_proj_weight[:8] / 2**0.5)
    torch.testing.assert_close(model.in_proj_weight[8:16], before.in_proj_weight[8:16] * 2**0.5)
    torch.testing.assert_close(model.in_proj_weight[16:], before.in_proj_weight[16:])
    assert anchors_of(rescaler).keys() == {"in_proj_weight", "out_proj.weight"}


@pytest.mark.parametrize("options", [{"growth": 1.0, "anchors": "initial"}, {"coefficient": 0.5}])
def test_the_memory_of_a_fused_parameter_may_be_replaced(options):
    model, inputs = attention()
    rescaler = pulled(model, inputs, **options)
    model.in_proj_weight.data = model.in_proj_weight.data.clone()
    norm = rescaler.norms()[QUERIES]
    rescaler.step()
    assert rescaler.norms()[QUERIES] < 0.95 * norm
    assert rescaler.norms()[QUERIES] == pytest.approx(model.in_proj_weight[:8].detach().norm().item())


def test_state_patterns_and_attachment():
    model, inputs = attention()
    rescaler = swr.SoftWeightRescaling(model, inputs, coefficient={"in_proj_weight": 0.1, QUERIES: 0.5, "*": 0.2})
    assert rescaler.coefficients()[QUERIES] == pytest.approx(0.1)  # the first pattern that matches
    assert rescaler.coefficients()["out_proj.weight"] == pytest.approx(0.2)
    optimizer = torch.optim.Adam(model.parameters())
    rescaler.attach(optimizer)
    model(*inputs)[0].square().sum().backward()
    optimizer.step()
    other = copy.deepcopy(rescaler)
    assert other.state_dict() == rescaler.state_dict()
    assert set(rescaler.anchors()) == {QUERIES, KEYS, VALUES, "out_proj.weight"}
    with pytest.raises(swr.errors.AttachError, match="in_proj_weight"):
        swr.SoftWeightRescaling(model, inputs).attach(optimizer)


def test_anchors_of_blocks_outlive_freezing():
    model, inputs = attention()
    rescaler = swr.SoftWeightRescaling(model, inputs, coefficient=0.5)
    anchors = rescaler.anchors()
    model.in_proj_weight.requires_grad_(False)
    with pytest.warns(swr.errors.ModelWarning):
        assert set(rescaler.anchors()) <= {"out_proj.weight"}
    stored = rescaler.state_dict()
    assert QUERIES in stored["anchors"]
    rescaler.load_state_dict(stored)
    with torch.no_grad():
        model.in_proj_weight.mul_(3)
    model.in_proj_weight.requires_grad_(True)
    assert rescaler.anchors() == anchors


def test_training_gpt2_keeps_its_blocks_in_a_budget():
    torch.manual_seed(0)
    model, x = gpt2(1), torch.arange(8)[None]
    rescaler = swr.SoftWeightRescaling(model, x, growth=1.0, anchors="initial", inhomogeneous="free")
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    rescaler.attach(optimizer)
    for _ in range(5):
        optimizer.zero_grad()
        model(x, labels=x).loss.backward()
        optimizer.step()
    anchors = rescaler.anchors()
    assert "transformer.h.0.attn.c_attn.weight[:, 32:64]" in anchors
    assert all(norm <= anchors[name] * (1 + 1e-5) for name, norm in rescaler.norms().items())


class Fused(nn.Module):
    """Blocks along the first axis, and along the second; FSDP2 shards the first."""

    def __init__(self):
        super().__init__()
        self.qkv, self.gate = nn.Linear(8, 24), nn.Parameter(torch.randn(8, 16))

    def forward(self, x):
        y = nn.functional.scaled_dot_product_attention(*self.qkv(x).split(8, -1))
        value, gate = (y @ self.gate).chunk(2, -1)
        return value * gate.sigmoid()


def rescaled_once(shard, dtype):
    torch.manual_seed(0)
    model = Fused().to(dtype)
    rescaler = swr.SoftWeightRescaling(model, torch.randn(2, 5, 8, dtype=dtype), coefficient=0.5)
    with torch.no_grad():
        model.qkv.weight[:8] *= 4
        model.gate[:, :8] *= 4
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    shard(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    rescaler.attach(optimizer)
    rescaler.load_state_dict(rescaler.state_dict())  # the anchors are meant, although some weights have grown
    optimizer.step()
    return before, ranks.full(model), rescaler.norms()


def on_rank(rank, world):
    return {dtype: rescaled_once(fully_shard, dtype) for dtype in (torch.float64, torch.bfloat16)}


@pytest.mark.parametrize("world", [2, 5])
def test_blocks_of_sharded_parameters_are_scaled_as_in_one_process(world, tmp_path):
    for found in ranks.on_ranks(world, on_rank, folder=tmp_path):
        for dtype, (_, weights, norms) in found.items():
            before, expected, alone = rescaled_once(lambda model: model, dtype)
            tolerance = 1e-12 if dtype is torch.float64 else 1e-2
            for name, value in expected.items():
                torch.testing.assert_close(weights[name], value, rtol=tolerance, atol=tolerance)
            assert norms == pytest.approx(alone, rel=tolerance)
            assert not torch.equal(weights["qkv.weight"][:8], before["qkv.weight"][:8])
            assert not torch.equal(weights["gate"][:, :8], before["gate"][:, :8])
            torch.testing.assert_close(weights["gate"][:, 8:], before["gate"][:, 8:], rtol=tolerance, atol=0.0)
