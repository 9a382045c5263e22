"""Small networks with one peculiarity each: sharing, tying, freezing, several inputs and outputs, odd arithmetic."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .network import Network, normal


class Layers(nn.Module):
    """Three linear layers, 12 -> 8 -> 8 -> 5, used by most of the networks below."""

    def __init__(self, bias: bool = True):
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(12, 8, bias), nn.Linear(8, 8, bias), nn.Linear(8, 5, bias)


class UsedTwice(Layers):
    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.fc1(x))
        return self.fc3(F.relu(self.fc2(F.relu(self.fc2(x)))))


class Siamese(Layers):
    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        a, b = (self.fc2(F.relu(self.fc1(x))) for x in (a, b))
        return (a - b).abs().sum(-1)


class TwoInTwoOut(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left, self.right, self.joint = nn.Linear(12, 8), nn.Linear(7, 8), nn.Linear(16, 8)
        self.near, self.far = nn.Linear(8, 5), nn.Linear(8, 3)

    def forward(self, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        x = F.relu(self.joint(F.relu(torch.cat([self.left(a), self.right(b)], -1))))
        return self.near(x), self.far(x)


class AuxiliaryHead(Layers):
    """Two outputs of different depth in a nested structure."""

    def __init__(self) -> None:
        super().__init__()
        self.early = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> dict[str, Tensor | tuple[Tensor, Tensor]]:
        early = F.relu(self.fc1(x))
        late = self.fc3(F.relu(self.fc2(early)))
        return {"logits": (late, self.early(early)), "prediction": late.argmax(-1)}


class Predictions(Layers):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        logits = self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))
        return logits, logits.argmax(-1)


class GaussianPolicy(Layers):
    def __init__(self) -> None:
        super().__init__()
        self.log_std = nn.Parameter(torch.zeros(5))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        mean = self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))
        return mean, self.log_std.exp().expand_as(mean)


class Unused(Layers):
    def __init__(self) -> None:
        super().__init__()
        self.forgotten = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


class FrozenBias(Layers):
    def __init__(self) -> None:
        super().__init__()
        self.fc2.bias.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


class FrozenWeight(Layers):
    def __init__(self) -> None:
        super().__init__()
        self.fc2.weight.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


class LoRA(Layers):
    """A frozen weight plus a trained one of low rank."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.up = nn.Parameter(torch.randn(2, 8) / 3), nn.Parameter(torch.randn(8, 2) / 3)
        self.fc2.weight.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.fc1(x))
        x = F.linear(x, self.fc2.weight + 0.5 * (self.up @ self.down), self.fc2.bias)
        return self.fc3(F.relu(x))


class TiedAutoencoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Linear(12, 5)
        self.bias = nn.Parameter(torch.zeros(12))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(F.relu(self.encoder(x)), self.encoder.weight.t(), self.bias)


class LayerScale(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.enter, self.head = nn.Linear(12, 8), nn.Linear(8, 5)
        self.norm, self.fc1, self.fc2 = nn.LayerNorm(8), nn.Linear(8, 16), nn.Linear(16, 8)
        self.gain = nn.Parameter(torch.full((8,), 1e-2))

    def forward(self, x: Tensor) -> Tensor:
        x = self.enter(x)
        return self.head(x + self.gain * self.fc2(F.relu(self.fc1(self.norm(x)))))


class PlainResidual(Layers):
    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.fc1(x))
        return self.fc3(x + F.relu(self.fc2(x)))


class Temperature(Layers):
    def __init__(self) -> None:
        super().__init__()
        self.temperature = nn.Parameter(torch.tensor(0.7))

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(F.relu(self.fc1(x))) / self.temperature


class LogScale(Layers):
    """As in CLIP: the learned scale passes through exp."""

    def __init__(self) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.tensor(0.7))

    def forward(self, x: Tensor) -> Tensor:
        return self.log_scale.exp() * self.fc2(F.relu(self.fc1(x)))


class CosineHead(Layers):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(3.0))

    def forward(self, x: Tensor) -> Tensor:
        x = F.normalize(F.relu(self.fc1(x)), dim=-1)
        return self.scale * F.linear(x, F.normalize(self.fc2.weight, dim=-1))


class Contrastive(Layers):
    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        a, b = (self.fc2(F.relu(self.fc1(x))) for x in (a, b))
        return a @ (b / b.norm(dim=-1, keepdim=True)).T / a.norm(dim=-1, keepdim=True).clamp(min=1e-8)


class GatedLinearUnit(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.value, self.gate, self.out = nn.Linear(12, 8), nn.Linear(12, 8), nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.value(x) * F.relu(self.gate(x)))


class SigmoidGate(GatedLinearUnit):
    def forward(self, x: Tensor) -> Tensor:
        return self.out(F.glu(torch.cat([self.value(x), self.gate(x)], -1)))


class Branches(nn.Module):
    def __init__(self, count: int) -> None:
        super().__init__()
        self.branches = nn.ModuleList(nn.Linear(12, 8) for _ in range(count))
        self.out = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.join(*(branch(x) for branch in self.branches)))


class LargestBranch(Branches):
    def join(self, a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> Tensor:
        return torch.maximum(torch.stack([a, b]).max(0).values, torch.minimum(c, d))


class ChosenBranch(Branches):
    def join(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.where(torch.arange(8) % 2 == 0, a, b)


class LearnedInterpolation(Branches):
    """a + w (b - a): all three are tensors, and w must stay."""

    def join(self, a: Tensor, b: Tensor, w: Tensor) -> Tensor:
        return torch.lerp(a, b, w)


class ScatteredProduct(Branches):
    """Entries that receive several factors know how many."""

    def join(self, a: Tensor, b: Tensor) -> Tensor:
        return a.scatter_reduce(1, torch.tensor([0, 0, 0, 1, 1, 2, 3, 4]).expand(len(b), 8), b, "prod")


class FilledWithOnes(Branches):
    def join(self, a: Tensor) -> Tensor:
        return a.masked_fill(torch.arange(8) % 2 == 0, 1.0)


class Bins(nn.Module):
    """Rounding to an integer knows the scale."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.table, self.fc2 = nn.Linear(12, 8), nn.Embedding(6, 8), nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        bins = (4 * self.fc1(x)).abs().long().clamp(max=5)
        return self.fc2(self.table(bins).mean(1))


class LearnedDropout(Layers):
    """A probability knows its scale, too."""

    def __init__(self) -> None:
        super().__init__()
        self.keep = nn.Parameter(0.25 + 0.2 * torch.rand(8))

    def forward(self, x: Tensor) -> Tensor:
        x = self.fc1(x)
        return self.fc2(x * torch.bernoulli(self.keep.expand_as(x)))


class SliceAssignment(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.out = nn.Linear(12, 4), nn.Linear(12, 4), nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        joint = torch.zeros(len(x), 8, dtype=x.dtype)
        joint[:, :4] = F.relu(self.a(x))
        joint[:, 4:] = self.b(x)
        return self.out(joint)


class ZeroedSlice(Layers):
    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.fc1(x))
        x[:, 0] = 0.0
        x[:, 1:3] *= 2.0
        return self.fc2(x)


class WhereActivation(Layers):
    def forward(self, x: Tensor) -> Tensor:
        x = self.fc1(x)
        x = self.fc2(torch.where(x > 0, x, 0.1 * x))
        return self.fc3(x * (x > 0))


class Threshold(Layers):
    """A comparison with anything but zero knows the scale."""

    def forward(self, x: Tensor) -> Tensor:
        x = self.fc1(x)
        return self.fc2(torch.where(x > 0.25, x, 0.0))


class Shifted(Layers):
    def forward(self, x: Tensor) -> Tensor:
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x))) - 0.25))


class PaddedWithOnes(Layers):
    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(F.pad(self.fc1(x)[:, 1:], (0, 1), value=1.0))


class Polynomial(Layers):
    def forward(self, x: Tensor) -> Tensor:
        x = self.fc1(x)
        return self.fc2(x * x + x)


class MeanAndDeviation(nn.Module):
    def __init__(self, statistic) -> None:
        super().__init__()
        self.conv, self.out = nn.Conv1d(3, 4, 3), nn.Linear(8, 5)
        self.statistic = statistic

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.conv(x))
        return self.out(torch.cat([x.mean(-1), self.statistic(x, -1)], -1))


class ScaleAndShift(Layers):
    """One parameter both multiplies and is added: it is a weight, and its input must keep its scale."""

    def __init__(self) -> None:
        super().__init__()
        self.both = nn.Parameter(torch.randn(8))

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(F.relu(self.fc1(x) * self.both + self.both))


class ZeroState(Layers):
    """Zero fits any scale, but what a biased layer makes of it does not."""

    def forward(self, x: Tensor) -> Tensor:
        x = self.fc1(x)
        return self.fc3(F.relu(x + self.fc2(torch.zeros_like(x))))


class MixtureOfExperts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(12, 8) for _ in range(3))
        self.router, self.head = nn.Linear(12, 3), nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        choice = torch.softmax(self.router(x), -1)
        mixed = sum(choice[:, i : i + 1] * expert(x) for i, expert in enumerate(self.experts))
        return self.head(F.relu(mixed))


class HyperNetwork(nn.Module):
    """One layer writes the weights of another."""

    def __init__(self) -> None:
        super().__init__()
        self.writer, self.out = nn.Linear(4, 12 * 8), nn.Linear(8, 5)

    def forward(self, x: Tensor, task: Tensor) -> Tensor:
        written = self.writer(task).unflatten(-1, (12, 8))
        return self.out(F.relu(torch.bmm(x.unsqueeze(1), written).squeeze(1)))


class ParameterList(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.matrices = nn.ParameterList(nn.Parameter(torch.randn(8, 8) / 3) for _ in range(3))
        self.shifts = nn.ParameterDict({str(i): nn.Parameter(torch.randn(8)) for i in range(3)})

    def forward(self, x: Tensor) -> Tensor:
        for matrix, shift in zip(self.matrices, self.shifts.values(), strict=True):
            x = F.relu(x @ matrix - shift)
        return x


class InputStandardised(Layers):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.randn(12))
        self.register_buffer("deviation", 0.5 + torch.rand(12))

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(F.relu(self.fc1((x - self.mean) / self.deviation)))


VECTORS = normal((6, 12))
PAIRS = normal((6, 12), (6, 12))
TWO_LAYERS = {"followers": ("fc[12].bias",), "unused": ("fc3.*",)}

PATHOLOGIES = (
    # bias = fc1 + fc2 at the first use and fc1 + 2 fc2 at the second.
    Network("a module used twice", UsedTwice, VECTORS, free=("fc1.weight", "fc3.weight"), held=("fc2.weight",)),
    Network("a module used twice, no bias", lambda: UsedTwice(bias=False), VECTORS),
    Network("siamese", Siamese, PAIRS, free=("fc[12].weight",), **TWO_LAYERS),
    # left = right in the concatenation, near = far in the one constant.
    Network(
        "two inputs and two outputs",
        TwoInTwoOut,
        normal((6, 12), (6, 7)),
        free=("joint.weight",),
        coupled=("left.weight", "right.weight", "near.weight", "far.weight"),
    ),
    # fc2 + fc3 = early.
    Network(
        "outputs of different depth in a dict",
        AuxiliaryHead,
        VECTORS,
        free=("fc1.weight",),
        coupled=("fc2.weight", "fc3.weight", "early.weight"),
    ),
    Network("an integer output", Predictions, VECTORS),
    # The deviations do not move, so neither may the means: fc1 + fc2 + fc3 = 0.
    Network(
        "gaussian policy",
        GaussianPolicy,
        VECTORS,
        free=(),
        coupled=("*weight",),
        held=None,
        followers=None,
        constant_is_one=True,
    ),
    Network(
        "an unused parameter",
        Unused,
        VECTORS,
        free=("fc*.weight",),
        followers=("fc*.bias",),
        unused=("forgotten.*",),
    ),
    # fc1 + fc2 = 0, since the frozen bias is a constant.
    Network("a frozen bias", FrozenBias, VECTORS, free=("fc3.weight",), coupled=("fc[12].weight",)),
    Network("a frozen weight", FrozenWeight, VECTORS),
    # up + down = 0, since the frozen weight is a constant.
    Network("low-rank adaptation", LoRA, VECTORS, free=("fc*.weight",), coupled=("up", "down")),
    Network("tied autoencoder", TiedAutoencoder, VECTORS),
    # norm + fc1 + fc2 + gain = enter.
    Network(
        "layer scale",
        LayerScale,
        VECTORS,
        free=("head.weight",),
        coupled=("enter.weight", "norm.weight", "fc?.weight", "gain"),
        normalised=True,
    ),
    Network("residual without norm", PlainResidual, VECTORS, free=("fc1.weight", "fc3.weight"), held=("fc2.weight",)),
    Network("temperature", Temperature, VECTORS, free=("fc[12].weight", "temperature"), **TWO_LAYERS),
    Network(
        "log scale",
        LogScale,
        VECTORS,
        free=("fc[12].weight",),
        held=("log_scale",),
        complete=False,  # any change of the one number is a constant factor, but exp is opaque
        **TWO_LAYERS,
    ),
    Network(
        "cosine head",
        CosineHead,
        VECTORS,
        free=("fc[12].weight", "scale"),
        followers=("fc1.bias",),
        unused=("fc2.bias", "fc3.*"),
    ),
    Network("contrastive", Contrastive, PAIRS, free=("fc[12].weight",), constant_is_one=True, **TWO_LAYERS),
    Network("gated linear unit", GatedLinearUnit, VECTORS),
    # value = gate in the concatenation that F.glu splits again, and gate = 0 at its sigmoid.
    Network(
        "sigmoid gate",
        SigmoidGate,
        VECTORS,
        free=("out.weight",),
        held=("value.weight", "gate.weight"),
        complete=False,  # cat, then split: the two halves never mix, but the algebra gives a tensor one scale
    ),
    Network("largest branch", lambda: LargestBranch(4), VECTORS, free=("out.weight",), coupled=("branches.*weight",)),
    Network("chosen branch", lambda: ChosenBranch(2), VECTORS, free=("out.weight",), coupled=("branches.*weight",)),
    Network(
        "learned interpolation",
        lambda: LearnedInterpolation(3),
        VECTORS,
        free=("out.weight",),
        coupled=("branches.[01].weight",),
        held=("branches.2.weight",),
    ),
    Network(
        "scattered product",
        lambda: ScatteredProduct(2),
        VECTORS,
        free=None,
        held=None,
        complete=False,  # the receiving side could stay free; holding both is as good
    ),
    Network("filled with ones", lambda: FilledWithOnes(1), VECTORS, free=("out.weight",), held=("branches.*weight",)),
    Network(
        "bins",
        Bins,
        VECTORS,
        free=("table.weight", "fc2.weight"),
        held=("fc1.weight",),
        complete=False,  # as for a threshold
    ),
    Network(
        "learned dropout",
        LearnedDropout,
        VECTORS,
        free=("fc[12].weight",),
        held=("keep",),
        complete=False,  # as for a threshold
        **TWO_LAYERS,
    ),
    Network(
        "slice assignment",
        SliceAssignment,
        VECTORS,
        free=("out.weight",),
        coupled=("a.weight", "b.weight"),
    ),
    Network("zeroed slice", ZeroedSlice, VECTORS, free=("fc[12].weight",), **TWO_LAYERS),
    Network("activation by where", WhereActivation, VECTORS),
    Network(
        "threshold",
        Threshold,
        VECTORS,
        free=("fc2.weight",),
        held=("fc1.weight",),
        complete=False,  # an infinitesimal change crosses no threshold, so the probe does not see it
        **TWO_LAYERS,
    ),
    Network("shifted", Shifted, VECTORS, free=("fc3.weight",), coupled=("fc[12].weight",)),
    Network("padded with ones", PaddedWithOnes, VECTORS, free=("fc2.weight",), held=("fc1.weight",), **TWO_LAYERS),
    Network("polynomial", Polynomial, VECTORS, free=("fc2.weight",), held=("fc1.weight",), **TWO_LAYERS),
    Network("mean and deviation", lambda: MeanAndDeviation(torch.std), normal((4, 3, 9))),
    Network(
        "mean and variance",
        lambda: MeanAndDeviation(torch.var),
        normal((4, 3, 9)),
        free=("out.weight",),
        held=("conv.weight",),
    ),
    Network(
        "one parameter scales and shifts",
        ScaleAndShift,
        VECTORS,
        free=("both", "fc2.weight"),
        held=("fc1.weight",),
        **TWO_LAYERS,
    ),
    Network("zero through a biased layer", ZeroState, VECTORS),
    # All experts write to one sum; the router ends in a softmax.
    Network(
        "mixture of experts",
        MixtureOfExperts,
        VECTORS,
        free=("head.weight",),
        coupled=("experts.*.weight",),
        held=("router.weight",),
    ),
    Network("hypernetwork", HyperNetwork, normal((6, 12), (6, 4))),
    Network("parameter list", ParameterList, normal((6, 8)), free=("matrices.*",), followers=("shifts.*",)),
    Network("standardised input", InputStandardised, VECTORS, free=("fc[12].weight",), **TWO_LAYERS),
)
