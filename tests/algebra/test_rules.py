"""Single rules, user rules, and what happens without one."""

import pytest
import torch
from torch import nn

import swr
from swr.algebra.rules.rulebook import RULES


class Between(nn.Module):
    """fc1, an operator, fc2."""

    def __init__(self, operator):
        super().__init__()
        self.fc1, self.fc2, self.operator = nn.Linear(4, 4), nn.Linear(4, 4), operator

    def forward(self, x):
        return self.fc2(self.operator(self.fc1(x)))


def role(operator, **options):
    model = Between(operator).double()
    with torch.no_grad():
        model.fc1.bias.copy_(torch.randn(4))
    x = torch.randn(3, 4, dtype=torch.float64)
    plan = swr.analyze(model, x, **options)
    assert options or plan.verify(model, x) < 1e-6
    return plan.kinds["fc1.weight"]


HOMOGENEOUS = {
    "clamp at zero": lambda x: x.clamp(min=0),
    "guarded division": lambda x: x / (x.abs().mean() + 1e-8),
    "guarded clamp": lambda x: x / x.norm().clamp_min(1e-12),
    "guarded root": lambda x: x * torch.rsqrt(x.square().mean() + 1e-30),
    "square root of a square": lambda x: (x**2).sqrt(),
    "reciprocal": lambda x: x * x * (1 / (x.abs() + 1e-20)),
    "sum of two uses": lambda x: x + 2 * x.relu(),
    "where on sign": lambda x: torch.where(x > 0, x, 0.1 * x),
    "masked fill with zero": lambda x: x.masked_fill(x < 0, 0.0),
    "padding with zeros": lambda x: nn.functional.pad(x, (1, 1))[:, 1:-1],
    "topk": lambda x: x.topk(4).values,
    "sort": lambda x: x.sort().values,
    "std": lambda x: x - x.std(),
    "variance": lambda x: x * x.var() / (x.square().mean() + 1e-30),
    "zeros like": lambda x: torch.maximum(x, torch.zeros_like(x)),
    "einsum with a constant": lambda x: torch.einsum("bi,ij->bj", x, torch.eye(4, dtype=x.dtype)),
    "in-place write": lambda x: x.clone().index_fill_(1, torch.tensor([0]), 0.0),
    "max with itself": lambda x: torch.maximum(x, -x),
    "cumulative sum": lambda x: x.cumsum(1),
    "sorted comparison": lambda x: x * (x > x.mean()),
}
INHOMOGENEOUS = {
    "added one": lambda x: x + 1,
    "gelu": nn.functional.gelu,
    "silu": nn.functional.silu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "softmax": lambda x: x.softmax(-1),
    "exp": torch.exp,
    "relu6": nn.functional.relu6,
    "clamp at one": lambda x: x.clamp(max=1),
    "threshold": lambda x: nn.functional.threshold(x, 0.1, 0.0),
    "comparison with a half": lambda x: x * (x > 0.5),
    "masked fill with one": lambda x: x.masked_fill(x < 0, 1.0),
    "padding with ones": lambda x: nn.functional.pad(x, (1, 1), value=1.0)[:, 1:-1],
    "power of two": lambda x: 2**x,
    "rounding": torch.round,
    "logarithm": lambda x: x.abs().log1p(),
    "cast to integers and back": lambda x: (4 * x).int().to(x.dtype),
    "product over places": lambda x: x.new_ones(3, 4).scatter_reduce(1, torch.zeros(3, 4, dtype=torch.long), x, "prod"),
}


@pytest.mark.parametrize("name", HOMOGENEOUS)
def test_homogeneous_operators_leave_the_weight_before_them_free(name):
    assert role(HOMOGENEOUS[name]) == "free"


@pytest.mark.parametrize("name", INHOMOGENEOUS)
def test_other_operators_hold_the_weight_before_them(name):
    assert role(INHOMOGENEOUS[name]) == "held"


@pytest.mark.parametrize("operator", [nn.functional.gelu, nn.functional.silu, torch.tanh, nn.functional.relu6])
def test_pass_treats_non_homogeneous_activations_as_homogeneous(operator):
    assert role(operator, inhomogeneous="pass") == "free"


@torch.library.custom_op("swrtests::triple", mutates_args=())
def triple(x: torch.Tensor) -> torch.Tensor:
    return 3 * x


@triple.register_fake
def _(x):
    return torch.empty_like(x)


def test_an_unknown_operator_holds_until_the_user_teaches_it():
    assert role(lambda x: triple(x)) == "held"

    @swr.rule(torch.ops.swrtests.triple.default)
    def _(flow, x):
        return flow.same(x)

    try:
        assert role(lambda x: triple(x)) == "free"
    finally:
        del RULES[str(torch.ops.swrtests.triple.default)]


class Peeking(nn.Module):
    """Batch norm whose running variance something else reads too."""

    def __init__(self, read):
        super().__init__()
        self.fc, self.bn, self.read = nn.Linear(4, 4), nn.BatchNorm1d(4), read

    def forward(self, x):
        return self.bn(self.fc(x)) + self.read(self.bn.running_var)


@pytest.mark.parametrize(
    "read",
    [
        torch.linalg.vector_norm,
        torch.linalg.norm,
        lambda v: nn.functional.normalize(v, dim=0),
        lambda v: nn.functional.layer_norm(v, (4,)),
        lambda v: nn.functional.batch_norm(torch.ones(2, 4, dtype=v.dtype), None, None, weight=v, training=True).sum() + v,
    ],
    ids=["vector_norm", "norm", "normalize", "layer_norm", "weight of a batch norm"],
)
def test_a_norm_of_a_running_statistic_is_no_normalisation_layer(read):
    model = Peeking(read).double().eval()
    with torch.no_grad():
        model.bn.running_var.uniform_(0.5, 2)
        model.bn.running_mean.normal_()
    x = torch.randn(5, 4, dtype=torch.float64)
    plan = swr.analyze(model, x)
    assert "fc.weight" in plan.held
    assert plan.verify(model, x) < 1e-4


class Given(nn.Module):
    """Batch norm with statistics that are no buffers."""

    def __init__(self, statistics):
        super().__init__()
        self.fc, self.statistics = nn.Linear(4, 4), statistics

    def forward(self, x):
        h = self.fc(x)
        return nn.functional.batch_norm(h, *self.statistics(h.detach()), training=False)


def test_statistics_that_are_no_buffers_do_not_follow():
    x = torch.randn(5, 4, dtype=torch.float64)
    for statistics, kind in (
        (lambda h: (torch.arange(4.0, dtype=h.dtype), torch.full((4,), 2.0, dtype=h.dtype)), "held"),
        (lambda h: (h.mean(0), h.var(0)), "free"),
        (lambda h: (h.mean(0), h.std(0)), "held"),
    ):
        model = Given(statistics).double()
        plan = swr.analyze(model, x)
        assert plan.kinds["fc.weight"] == kind
        assert plan.verify(model, x) < 1e-3


DISTANCES = {
    "dist": lambda x, y, p: torch.dist(x, y, p).expand(3),
    "cdist": torch.cdist,
    "pairwise_distance": lambda x, y, p: nn.functional.pairwise_distance(x, y, p, eps=0.0),
    "pdist": lambda x, y, p: torch.pdist(torch.cat([x, y]), p),
    "vector_norm": lambda x, y, p: torch.linalg.vector_norm(x - y, p, dim=-1),
    "linalg.norm": lambda x, y, p: torch.linalg.norm(x - y, p, dim=-1),
    "norm": lambda x, y, p: torch.norm(x - y, p, dim=-1),
}


class Distant(nn.Module):
    def __init__(self, distance, p):
        super().__init__()
        self.fc1, self.distance, self.p = nn.Linear(4, 4, bias=False), distance, p

    def forward(self, x):
        h = self.fc1(x)
        return self.distance(h, 2 * h, self.p) + self.distance(h, h.flip(0), self.p)


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.0])
@pytest.mark.parametrize("name", DISTANCES)
def test_a_distance_is_homogeneous_but_for_p_zero_which_counts_entries(name, p):
    torch.manual_seed(0)
    model, x = Distant(DISTANCES[name], p).double(), torch.randn(3, 4, dtype=torch.float64)
    plan = swr.analyze(model, x)
    assert plan.verify(model, x) < 1e-9
    assert plan.free == ("fc1.weight",)
    assert plan.output.terms == ({} if p == 0 else {"fc1.weight": 1.0})


NORMALISED = {
    "layer norm": lambda eps: nn.LayerNorm(4, eps=eps),
    "layer norm without weights": lambda eps: nn.LayerNorm(4, eps=eps, elementwise_affine=False),
    "group norm": lambda eps: nn.GroupNorm(2, 4, eps=eps),
    "rms norm": lambda eps: nn.RMSNorm(4, eps=eps),
    "batch norm": lambda eps: nn.BatchNorm1d(4, eps=eps),
    "batch norm in evaluation": lambda eps: nn.BatchNorm1d(4, eps=eps).eval(),
}


@pytest.mark.parametrize("name", NORMALISED)
def test_only_a_small_epsilon_of_a_normalisation_layer_counts_as_nothing(name):
    torch.manual_seed(0)
    x = torch.randn(6, 4, dtype=torch.float64)
    for eps, kind in ((1e-12, "free"), (1e-3, "free"), (1.1e-3, "held"), (0.5, "held")):
        model = nn.Sequential(nn.Linear(4, 4), NORMALISED[name](eps), nn.Linear(4, 2)).double()
        plan, chained = swr.analyze(model, x), swr.chain(model)
        assert plan.kinds["0.weight"] == chained.kinds["0.weight"] == kind
        if kind == "held" or eps < 1e-9:
            assert plan.verify(model, x) < 1e-7
    assert swr.analyze(model, x, inhomogeneous="pass").kinds["0.weight"] == "free"


def test_a_cosine_with_a_large_epsilon_is_not_scale_free():
    def cosine(eps):
        return role(lambda x: x * nn.functional.cosine_similarity(x, x.flip(0), eps=eps)[:, None])

    assert cosine(1e-8) == "free"
    assert cosine(50.0) == "held"


def test_bits_read_as_another_type_are_held():
    assert role(lambda x: x.view(torch.complex128).view(torch.float64).view(torch.float32).double()[:, :4]) == "held"


def test_branches_of_control_flow_operators_hold():
    def branch(x):
        return torch.cond(x.shape[0] > 2, lambda t: t.sin(), lambda t: t.cos(), (x,))

    def on_data(x):
        return torch.cond(x.sum() > 0, lambda t: t.relu(), lambda t: t.abs(), (x,))

    assert role(branch) == "held"
    assert role(on_data) == "held"


def test_an_embedding_bag_is_a_weight_like_any_table():
    class Bag(nn.Module):
        def __init__(self):
            super().__init__()
            self.bag, self.head = nn.EmbeddingBag(10, 4), nn.Linear(4, 2)

        def forward(self, tokens):
            return self.head(self.bag(tokens).relu())

    model, tokens = Bag(), torch.randint(10, (3, 5))
    plan = swr.analyze(model, tokens)
    assert plan.free == ("bag.weight", "head.weight")
    assert plan.verify(model, tokens) < 1e-12


class Reads(nn.Module):
    """A custom running mean: zero now, not later."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x):
        return self.fc(x) - self.mean


def test_a_buffer_of_zeros_is_not_trusted_to_stay_zero():
    assert swr.analyze(Reads(), torch.ones(2, 4)).held == ("fc.weight",)


def test_a_running_statistic_that_something_else_reads_is_not_scaled():
    class Peeks(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc, self.bn = nn.Linear(4, 4), nn.BatchNorm1d(4)

        def forward(self, x):
            return self.bn(self.fc(x)) * self.bn.running_var

    plan = swr.analyze(Peeks().eval(), torch.randn(3, 4))
    assert plan.held == ("fc.weight",)
    assert plan.free == ("bn.weight",)
