"""Which parameters are used in blocks, and that a plan for the blocks is sound."""

import copy

import pytest
import torch
from torch import nn
from torch.nn.functional import gelu, layer_norm, scaled_dot_product_attention

import swr
from nets import cnn_bn, gpt2, inputs_of, make, mlp
from swr.algebra.blocks import Block
from swr.algebra.fused import join_tied, split_fused
from swr.algebra.graph import trace
from swr.algebra.plan import plan_of_graph
from swr.probe import as_args


def analyze(model, inputs, inhomogeneous="hold"):
    """The plan of the graph whose fused parameters are split."""
    trained = {name for name, p in model.named_parameters() if p.requires_grad}
    traced = split_fused(trace(model, as_args(inputs)), trained)
    return join_tied(plan_of_graph(model, traced, inhomogeneous), plan_of_graph(model, traced))


def blocks_of(plan, parameter):
    found = [Block.named(name) for name in (*plan.weights, *plan.followers) if name.startswith(f"{parameter}[")]
    return sorted((block.start, block.stop) for block in found)


class Fused(nn.Module):
    """One product for queries, keys and values, taken apart by ``cut``."""

    def __init__(self, cut, *, bias=True, attend=None):
        super().__init__()
        self.qkv, self.out = nn.Linear(8, 24, bias=bias), nn.Linear(8, 4)
        self.cut, self.attend = cut, attend or (lambda q, k, v, qkv: scaled_dot_product_attention(q, k, v))

    def forward(self, x):
        qkv = self.qkv(x)
        return self.out(self.attend(*self.cut(qkv), qkv))


def heads(qkv):
    return qkv.reshape(*qkv.shape[:2], 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)


def joined(q, k, v, qkv):
    return scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(*qkv.shape[:2], 8)


THIRDS = {
    "split": Fused(lambda qkv: qkv.split(8, -1)),
    "chunk": Fused(lambda qkv: qkv.chunk(3, dim=2)),
    "slices": Fused(lambda qkv: (qkv[..., :8], qkv[..., 8:16], qkv[..., 16:])),
    "narrow": Fused(lambda qkv: tuple(qkv.narrow(-1, 8 * i, 8) for i in range(3))),
    "heads, then unbind": Fused(heads, attend=joined),
    "unflatten, then index": Fused(lambda qkv: tuple(qkv.unflatten(-1, (3, 8))[:, :, i] for i in range(3))),
    "without bias": Fused(lambda qkv: qkv.split(8, -1), bias=False),
    "after relu and dropout": Fused(lambda qkv: nn.functional.dropout(qkv.relu(), 0.0).split(8, -1)),
    "in two steps": Fused(lambda qkv: (qkv[..., :8], *qkv[..., 8:].chunk(2, -1))),
}


@pytest.mark.parametrize("case", THIRDS)
def test_a_product_that_is_cut_is_three_weights(case):
    torch.manual_seed(0)
    model, x = copy.deepcopy(THIRDS[case]).double(), torch.randn(2, 5, 8, dtype=torch.float64)
    plan = analyze(model, x)
    assert blocks_of(plan, "qkv.weight") == [(0, 8), (8, 16), (16, 24)]
    queries, keys, values = plan.weights[:3]
    assert plan.solution.partners(queries) == (keys,)
    assert plan.kinds[values] == "free"
    assert plan.verify(model, x) < 1e-9
    before, output = copy.deepcopy(model.qkv), model(x)
    constant = swr.rescale(model, plan, {queries: 4.0, values: 3.0})
    torch.testing.assert_close(model.qkv.weight[:8], 2 * before.weight[:8])
    torch.testing.assert_close(model.qkv.weight[8:16], before.weight[8:16] / 2)
    torch.testing.assert_close(model.qkv.weight[16:], 3 * before.weight[16:])
    torch.testing.assert_close(model(x), constant * output)


WHOLE = {
    "slices that overlap": Fused(lambda qkv: (qkv[..., :8], qkv[..., 4:12], qkv[..., 10:18] + qkv[..., 16:24])),
    "the product also used whole": Fused(lambda qkv: qkv.split(8, -1), attend=lambda q, k, v, qkv: q * qkv.sum() + k + v),
    "a part that is not used": Fused(lambda qkv: (qkv[..., :8], qkv[..., 8:16], qkv[..., 8:16])),
    "every third entry": Fused(lambda qkv: tuple(qkv[..., i::3] for i in range(3))),
    "interleaved with the heads": Fused(lambda qkv: tuple(t.flatten(2) for t in qkv.unflatten(-1, (2, 12)).chunk(3, -1))),
    "a scale of all entries first": Fused(lambda qkv: layer_norm(qkv, (24,), eps=0.0).split(8, -1)),
    "gelu first": Fused(lambda qkv: gelu(qkv).split(8, -1)),
}


@pytest.mark.parametrize("case", WHOLE)
def test_any_other_use_leaves_the_parameter_whole(case):
    torch.manual_seed(0)
    model, x = copy.deepcopy(WHOLE[case]).double(), torch.randn(2, 5, 8, dtype=torch.float64)
    plan = analyze(model, x)
    assert plan.weights == ("qkv.weight", "out.weight")
    assert plan.verify(model, x) < 1e-9


class Several(nn.Module):
    """Networks in one: what is cut is chosen by ``how``."""

    def __init__(self, how):
        super().__init__()
        self.how = how
        self.a, self.b, self.shared = nn.Linear(8, 16), nn.Linear(8, 16), nn.Linear(16, 4)
        self.bias = nn.Parameter(torch.randn(16))
        self.table = nn.Parameter(torch.randn(6, 8))
        self.conv = nn.Conv1d(5, 6, 3, padding=1)
        self.embedding = nn.Embedding(5, 16)

    def forward(self, x):
        return self.how(self, x)


def gate(x):
    value, gate = x.chunk(2, -1)
    return value * gate.sigmoid()


def shared_bias(net, x):
    return gate(x @ net.a.weight.T + net.bias) + gate(x @ net.b.weight.T + net.bias)


def bias_of_a_whole_layer(net, x):
    return gate(x @ net.a.weight.T + net.bias).sum() + (x @ net.b.weight.T + net.bias).sum()


def table(net, x):
    shift, scale, gain, *rest = net.table.unbind(0)
    return layer_norm(x, (8,), eps=0.0) * scale + shift + (x * gain).relu() * (rest[0] + rest[1] + rest[2]).exp()


CASES = {
    "gated linear unit": (lambda net, x: gate(net.a(x)), "a.weight", [(0, 8), (8, 16)]),
    "used twice, cut alike": (lambda net, x: gate(net.a(gate(net.a(x)))), "a.weight", [(0, 8), (8, 16)]),
    "used twice, once whole": (lambda net, x: gate(net.a(x)).sum() * net.a(x).sum(), "a.weight", []),
    "added bias, shared, cut alike": (shared_bias, "bias", [(0, 8), (8, 16)]),
    "added bias, shared with a whole layer": (bias_of_a_whole_layer, "a.weight", []),
    "channels": (lambda net, x: net.conv(x)[:, :2] * net.conv(x)[:, 2:4].exp() + 0 * x.sum(), "conv.weight", []),
    "channels, all": (lambda net, x: net.conv(x)[:, :3] * net.conv(x)[:, 3:].sigmoid(), "conv.weight", [(0, 3), (3, 6)]),
    "rows of a parameter": (table, "table", [(0, 1), (1, 3), (3, 4), (4, 5), (5, 6)]),  # scale and gain meet
    "columns of a table": (
        lambda net, x: gate(net.embedding(torch.arange(5))) * x.sum(),
        "embedding.weight",
        [(0, 8), (8, 16)],
    ),
    "a slice beside its union": (
        lambda net, x: net.a(x)[..., :4].sum() * net.a(x)[..., :8].sum() + net.a(x)[..., 8:].exp().sum(),
        "a.weight",
        [(0, 8), (8, 16)],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_blocks_of_other_networks(case):
    how, parameter, blocks = CASES[case]
    torch.manual_seed(0)
    model, x = Several(how).double(), torch.randn(2, 5, 8, dtype=torch.float64)
    plan = analyze(model, x)
    assert blocks_of(plan, parameter) == blocks
    assert plan.verify(model, x) < 1e-9


def test_a_frozen_bias_is_cut_along():
    torch.manual_seed(0)
    model, x = copy.deepcopy(THIRDS["split"]).double(), torch.randn(2, 5, 8, dtype=torch.float64)
    with torch.no_grad():
        model.qkv.bias[:16] = 0
    model.qkv.bias.requires_grad_(False)
    plan = analyze(model, x)
    queries, keys, values = plan.weights[:3]
    assert plan.kinds[values] == "held"  # its bias is a constant other than zero
    assert plan.solution.partners(queries) == (keys,)
    assert plan.verify(model, x) < 1e-9


def test_the_values_of_gpt2_move_without_its_queries_and_keys():
    model, x = gpt2(2), torch.arange(8)[None]
    plan = analyze(model, x)
    name = "transformer.h.1.attn.c_attn"
    queries, keys, values = (f"{name}.weight[:, {32 * i}:{32 * i + 32}]" for i in range(3))
    assert {queries, keys, values} <= set(plan.weights)
    assert blocks_of(plan, f"{name}.bias") == [(0, 32), (32, 64), (64, 96)]
    assert plan.verify(model, x) < 1e-9
    rows = dict(zip(plan.weights, plan.solution.projection, strict=True))
    difference = rows[queries] - rows[keys]
    assert difference.norm() > 1  # the ratio of queries and keys is free
    before, output = copy.deepcopy(model), model(x).logits
    constant = swr.rescale(model, plan, {queries: 4.0, keys: 0.25})
    weight, old = model.transformer.h[1].attn.c_attn.weight, before.transformer.h[1].attn.c_attn.weight
    torch.testing.assert_close(weight[:, :32], 4 * old[:, :32])
    torch.testing.assert_close(weight[:, 32:64], old[:, 32:64] / 4)
    torch.testing.assert_close(weight[:, 64:], old[:, 64:])
    torch.testing.assert_close(model(x).logits, constant * output, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("same", ["all", "keys and values", "none"])
def test_attention_layers_of_torch_are_cut_however_they_are_called(same):
    model = nn.MultiheadAttention(8, 2, batch_first=True).double()
    nn.init.normal_(model.in_proj_bias)
    x, y = torch.randn(2, 3, 8, dtype=torch.float64), torch.randn(2, 4, 8, dtype=torch.float64)
    inputs = {"all": (x, x, x), "keys and values": (x, y, y), "none": (x, y, y.clone())}[same]
    plan = analyze(model, inputs)
    assert blocks_of(plan, "in_proj_weight") == blocks_of(plan, "in_proj_bias") == [(0, 8), (8, 16), (16, 24)]
    assert plan.verify(model, inputs) < 1e-9


def test_a_block_of_each_kind_under_free():
    model, x = copy.deepcopy(THIRDS["split"]), torch.randn(2, 5, 8)
    plan = analyze(model, x, inhomogeneous="free")
    assert len(plan.free) == 4
    for i in range(3):
        row = plan.matrix((f"qkv.bias[{8 * i}:{8 * i + 8}]",))[0]
        assert row.tolist() == [float(j == i) for j in range(4)]


class Rotary(nn.Module):
    """Halves of queries and keys are rotated into each other: cut, but always of one scale."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 4)

    def forward(self, x):
        queries, keys, values = self.qkv(x).split(8, -1)
        return self.out(scaled_dot_product_attention(self.rotated(queries), self.rotated(keys), values))

    def rotated(self, x):
        first, second = x[..., :4], x[..., 4:]
        return torch.cat([0.8 * first - 0.6 * second, 0.6 * first + 0.8 * second], -1)


@pytest.mark.parametrize("mode", ["hold", "free"])
def test_blocks_that_always_have_one_scale_are_one(mode):
    torch.manual_seed(0)
    model, x = Rotary().double(), torch.randn(2, 5, 8, dtype=torch.float64)
    plan = analyze(model, x, mode)
    assert blocks_of(plan, "qkv.weight") == blocks_of(plan, "qkv.bias") == [(0, 8), (8, 16), (16, 24)]
    if mode == "hold":
        assert plan.verify(model, x) < 1e-9


@pytest.mark.parametrize("network", [mlp, cnn_bn])
def test_a_network_without_slices_is_not_touched(network):
    model = make(network)
    traced = trace(model, (inputs_of(model),))
    before = str(traced.graph)
    assert split_fused(traced, set(dict(model.named_parameters()))) is traced
    assert str(traced.graph) == before
