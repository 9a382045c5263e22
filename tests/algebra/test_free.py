"""``inhomogeneous="free"``: every weight on its own, its shift with it."""

import copy

import pytest
import torch
from torch import nn

import swr
from nets import inputs_of, make, mlp
from swr.algebra.plan import ScalePlan


def free(model, *inputs):
    return swr.analyze(model, inputs, inhomogeneous="free")


def leader(plan, name):
    """The weights that a follower or statistic is scaled by, and their powers."""
    return {w: k for w, k in zip(plan.weights, plan.matrix((name,))[0].tolist(), strict=True) if k}


class Block(nn.Module):
    """A pre-norm transformer block."""

    def __init__(self, width):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        h = self.norm1(x)
        x = x + self.out(nn.functional.scaled_dot_product_attention(self.q(h), self.k(h), self.v(h)))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class VisionTransformer(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 2, 2)
        self.token, self.positions = nn.Parameter(torch.randn(1, 1, width)), nn.Parameter(torch.randn(1, 5, width))
        self.blocks = nn.Sequential(Block(width), Block(width))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 4)

    def forward(self, x):
        x = self.patches(x).flatten(2).mT
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.positions
        return self.head(self.norm(self.blocks(x))[:, 0])


@pytest.fixture(scope="module")
def vit():
    torch.manual_seed(0)
    model, x = VisionTransformer(), torch.randn(2, 3, 4, 4)
    return model, x, free(model, x)


def test_every_weight_of_a_transformer_is_free(vit):
    model, x, plan = vit
    assert len(swr.analyze(model, x).free) < len(plan.weights)
    assert plan.free == plan.weights
    assert torch.equal(plan.solution.projection, torch.eye(len(plan.weights), dtype=torch.float64))


def test_a_shift_follows_its_own_weight_alone(vit):
    _, _, plan = vit
    for name in plan.followers:
        owner = "patches.weight" if name in ("token", "positions") else name.replace("bias", "weight")
        assert leader(plan, name) == {owner: 1}, name


def test_a_chain_gives_each_bias_the_scaler_of_its_layer():
    model = make(mlp)
    plan = free(model, inputs_of(model))
    before = copy.deepcopy(model.state_dict())
    constant = swr.rescale(model, plan, dict.fromkeys(plan.weights, 0.5))
    assert constant != constant  # no C is promised
    for name, value in model.state_dict().items():
        torch.testing.assert_close(value, 0.5 * before[name])


def test_verify_reports_what_the_function_loses(vit):
    model, x, plan = vit
    found = plan.verify(model, x)
    assert 1e-3 < found < 10
    assert "C was fitted" in str(found)
    assert swr.analyze(model, x).verify(model, x) < 1e-9


def test_verify_fits_the_constant_of_a_network_without_biases():
    model = nn.Sequential(nn.Linear(4, 4, bias=False), nn.ReLU(), nn.Linear(4, 2, bias=False))
    assert free(model, torch.randn(3, 4)).verify(model, torch.randn(3, 4)) < 1e-12


def test_verify_does_not_pretend_under_pass():
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(4, 4), nn.GELU(), nn.Linear(4, 2)), torch.randn(3, 4)
    plan = swr.analyze(model, x, inhomogeneous="pass")
    assert plan.verify(model, x) > 1e-3
    assert 'inhomogeneous="pass"' in plan.describe()


def test_the_change_of_the_function_is_small_for_small_scalers(vit):
    model, x, plan = vit
    scaled = copy.deepcopy(model)
    swr.rescale(scaled, plan, dict.fromkeys(plan.weights, 0.999))
    error = (scaled(x) - model(x)).norm() / model(x).norm()
    assert 1e-5 < error < 1e-1


def test_running_statistics_follow_the_layer_before():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
    plan = free(model, torch.randn(2, 3, 8, 8))
    assert leader(plan, "3.running_mean") == {"2.weight": 1}
    assert leader(plan, "3.running_var") == {"2.weight": 2}
    assert leader(plan, "3.bias") == {"3.weight": 1}


def test_a_batch_norm_of_two_layers_keeps_its_statistics():
    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.norm = nn.Linear(4, 4), nn.Linear(4, 4), nn.BatchNorm1d(4)

        def forward(self, x):
            return self.norm(self.a(x)) + self.norm(self.b(x))

    model = Shared().eval()
    plan = free(model, torch.randn(3, 4))
    assert plan.free == ("a.weight", "b.weight", "norm.weight")
    assert not plan.statistics


class Pieces(nn.Module):
    """Shared, tied, doubly used and plain parameters."""

    def __init__(self):
        super().__init__()
        self.table, self.first, self.second = nn.Embedding(7, 4), nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)
        self.shared, self.after = nn.Parameter(torch.randn(4)), nn.Parameter(torch.randn(4))
        self.slope, self.temperature = nn.PReLU(), nn.Parameter(torch.zeros(()))
        self.gain = nn.Parameter(torch.ones(4))

    def forward(self, index):
        x = self.table(index)
        x = self.slope(self.first(self.first(x)) + self.shared) + (self.second(x) + self.shared)
        x = self.gain * (x + self.after)
        return x @ self.table.weight.T * self.temperature.exp()


def test_shared_tied_and_reused_parameters():
    plan = free(Pieces(), torch.arange(5)[None])
    assert plan.free == ("gain", "table.weight", "first.weight", "second.weight")
    assert plan.held == ("temperature", "slope.weight")
    assert not plan.matrix(("shared", "after")).any()  # added where two weights meet
    assert "prelu" in plan.solution.restriction("slope.weight").reason


def test_a_shift_of_a_sum_of_shifts_follows():
    class Shifts(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.a, self.b = nn.Linear(4, 4), nn.Parameter(torch.randn(4)), nn.Parameter(torch.randn(4))

        def forward(self, x):
            return self.layer(x) + (self.a + self.b)

    plan = free(Shifts(), torch.randn(2, 4))
    assert all(leader(plan, name) == {"layer.weight": 1} for name in ("a", "b", "layer.bias"))


def test_the_plan_survives_json_and_says_what_it_is(vit):
    plan = vit[2]
    again = ScalePlan.from_json(plan.to_json())
    assert again == plan
    assert again.inhomogeneous == "free"
    assert "is not kept" in plan.describe()
    assert "multiplied by C" not in plan.describe()


def test_there_is_no_constant_to_keep(vit):
    assert vit[2].keeping_output() is vit[2]
    assert not vit[2].output_row.any()


@pytest.mark.parametrize("options", [{"growth": 1.0}, {"coefficient": 0.5}])
def test_a_rescaler_pulls_every_weight_and_its_own_shift(options):
    torch.manual_seed(0)
    model, x = VisionTransformer(), torch.randn(2, 3, 4, 4)
    rescaler = swr.SoftWeightRescaling(model, x, inhomogeneous="free", **options)
    start = copy.deepcopy(model)
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(1.5)
    rescaler.load_state_dict(rescaler.state_dict())  # the anchors are meant, although the weights have grown
    rescaler.step()
    factor = 1.0 if "growth" in options else 1.25
    for (name, p), old in zip(model.named_parameters(), start.parameters(), strict=True):
        if name in rescaler.plan.weights or old.any():
            torch.testing.assert_close(p, factor * old)


def test_an_older_plan_is_exact():
    plan = swr.analyze(make(mlp), inputs_of(make(mlp)))
    text = plan.to_json().replace(', "inhomogeneous": "hold"', "")
    assert text != plan.to_json()
    assert ScalePlan.from_json(text) == plan
