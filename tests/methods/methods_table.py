"""One table of methods that drives the common tests, and the small networks they run on."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from swr import methods
from swr.bench.experiments import models
from swr.methods.tools.layers import NORMALISATION, is_convolution

NARROW = tuple(width // 16 for width in models.VGG16)

MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, int, int]]] = {
    "mlp": (lambda: models.mlp((1, 8, 8), 5, hidden=16), (1, 8, 8)),
    "cnn": (lambda: models.cnn((3, 18, 18), 5, width=4, hidden=12), (3, 18, 18)),
    "cnnbn": (lambda: models.cnn((3, 18, 18), 5, normalised=True, width=4, hidden=12), (3, 18, 18)),
    "vgg16": (lambda: models.vgg16((3, 32, 32), 5, widths=NARROW, hidden=24), (3, 32, 32)),
}


class Tied(nn.Module):
    """One weight in two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 5)
        self.second.weight = self.first.weight

    def forward(self, inputs: Tensor) -> Tensor:
        return self.last(self.second(self.first(inputs.flatten(1)).relu()).relu())


def zeros() -> nn.Module:
    """A weight and a bias that begin at zero, in the middle and at the end."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 5))
    for p in (model[1].bias, *model[3].parameters(), model[5].weight):
        nn.init.zeros_(p)
    return model


def without_biases() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 2, padding=1, bias=False),
        nn.BatchNorm2d(4, affine=False),
        nn.ReLU(),
        nn.Conv2d(4, 3, 2, bias=False),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(18, 4, bias=False),
        nn.ReLU(),
        nn.Linear(4, 5, bias=False),
    )


def one_unit() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 1, 1), nn.ReLU(), nn.Flatten(), nn.Linear(6, 1), nn.ReLU(), nn.Linear(1, 1), nn.ReLU(), nn.Linear(1, 5)
    )


ODD: dict[str, tuple[Callable[[], nn.Module], tuple[int, int, int]]] = {
    "zeros": (zeros, (1, 2, 3)),
    "without_biases": (without_biases, (1, 2, 3)),
    "tied": (Tied, (1, 2, 3)),
    "one_unit": (one_unit, (1, 2, 3)),
}
"""networks that break careless methods"""

WEIGHTS = frozenset({"weight"})
LAYERS = frozenset({"weight", "bias"})
PARAMETERS = frozenset({"weight", "bias", "norm"})
EVERYTHING = frozenset({"weight", "bias", "norm", "buffer"})


@dataclass(frozen=True)
class Case:
    name: str
    hyper: dict[str, Any] = field(default_factory=dict)
    """a setting in which it acts within two steps, or at the first new task"""
    inert: dict[str, Any] | None = None
    """a setting that does nothing; None: there is none, see ``steps``"""
    steps: bool = False
    """whether it acts at steps; one that does not needs no inert setting: between tasks it is vanilla"""
    tasks: bool = False
    """whether it changes the network at new tasks"""
    touches: frozenset[str] = PARAMETERS
    """what it may change: weight and bias of convolutions and linear layers, norm (gains and shifts), buffer"""
    refuses: frozenset[str] = frozenset()
    """odd networks of which it says that it can do nothing with them"""

    def __str__(self) -> str:
        return "-".join([self.name, *self.hyper])


UNITS = {"steps": True, "touches": EVERYTHING, "refuses": frozenset({"tied"})}  # the tied network has no unit of its own

CASES = (
    Case("vanilla", {}, {}),
    Case("l2", {"coefficient": 1e-2}, {"coefficient": 0.0}, steps=True),
    Case("l2-init", {"coefficient": 1e-1}, {"coefficient": 0.0}, steps=True),
    Case("shrink-perturb", {"coefficient": 0.4}, {"coefficient": 0.0}, tasks=True),
    Case("head-reset", {}, tasks=True, touches=LAYERS),
    Case("full-reset", {}, tasks=True, touches=EVERYTHING),
    Case("redo", {"threshold": 0.5, "every": 1}, {"threshold": -1.0, "every": 1}, **UNITS),
    Case("continual-backprop", {"rate": 0.3, "maturity": 0}, {"rate": 0.0, "maturity": 0}, **UNITS),
    Case("self-normalized-resets", {"longest": 6, "every": 1}, {"longest": 10**9}, **UNITS),
    Case("naive-scaling", {"ratio": 0.5}, {"ratio": 1.0}, tasks=True),
    Case("proportional-scaling", {"ratio": 0.5}, {"ratio": 1.0}, tasks=True, touches=EVERYTHING),
    Case("swr", {"coefficient": 1e-2}, {"coefficient": 0.0}, steps=True, touches=EVERYTHING),
    Case("swr-reinit", {"coefficient": 1e-2}, {"coefficient": 0.0}, steps=True, touches=EVERYTHING),
    Case("swr-budget", {"growth": 1.0}, {"growth": 1e9}, steps=True, touches=EVERYTHING),
    Case("weight-decay", {"coefficient": 0.1}, {"coefficient": 0.0}, steps=True, touches=WEIGHTS),
    Case("cautious-decay", {"coefficient": 0.1}, {"coefficient": 0.0}, steps=True, touches=WEIGHTS),
    Case("cpr", {"factor": 0.9}, {"factor": 1e9}, steps=True, touches=WEIGHTS),
    Case("wasserstein", {"coefficient": 1e-1}, {"coefficient": 0.0}, steps=True),
    Case("spectral-norm", {"coefficient": 1e-1}, {"coefficient": 0.0}, steps=True, touches=WEIGHTS),
    Case("spectral", {"coefficient": 1e-1}, {"coefficient": 0.0}, steps=True),
    Case("effective-rank", {"coefficient": 1e-1}, {"coefficient": 0.0}, steps=True),
    Case("parseval", {"coefficient": 1e-2}, {"coefficient": 0.0}, steps=True, touches=WEIGHTS),
    Case("weight-rescaling", {"multiplier": 0.9}, {"every": float("inf")}, steps=True, touches=WEIGHTS),
    Case("weight-clipping", {"bound": 0.5}, {"bound": float("inf")}, steps=True, touches=LAYERS),
    Case("nap", {"decay": 0.01}, {"every": float("inf")}, steps=True, touches=WEIGHTS | {"norm"}),
    Case("hyperball", {}, steps=True, touches=WEIGHTS),
    Case("lipschitz", {"bound": 0.3}, {"bound": float("inf")}, steps=True, touches=WEIGHTS | {"norm"}),
    Case("max-norm", {"bound": 0.3}, {"bound": float("inf")}, steps=True, touches=WEIGHTS),
    Case("spectral-normalisation", {"bound": 0.3}, {"bound": float("inf")}, steps=True, touches=WEIGHTS),
    Case("weight-normalisation", {"every": 1}, {"every": float("inf")}, steps=True, touches=WEIGHTS),
    Case("layerwise", {}, tasks=True),
    Case("dash", {"floor": 0.3}, {"floor": 1.0}, tasks=True, touches=LAYERS),
    Case("rifle", {"resets": 1}, {"resets": 0}, tasks=True, touches=LAYERS),
    Case("llf", {}, tasks=True, touches=WEIGHTS),
    Case("knowledge-evolution", {"split": 0.5}, {"split": 1.0}, tasks=True, touches=WEIGHTS),
    Case("lure", {"part": 0.2}, {"part": 0.0}, tasks=True, touches=WEIGHTS),
    Case("dsd", {"sparsity": 0.5}, {"sparsity": 0.0}, tasks=True, touches=WEIGHTS),
    Case(
        "hare-tortoise", {"momentum": 0.9, "every": 2}, {"momentum": 1.0, "every": float("inf")}, steps=True, touches=EVERYTHING
    ),
    Case("ema", {"momentum": 0.9}, {}, touches=frozenset()),
    Case("shrink-perturb-fresh", {}, {"retain": 1.0, "noise": 0.0}, tasks=True, touches=EVERYTHING),
    Case("fire", {}, {"layers": ()}, tasks=True, touches=WEIGHTS),
    Case("upgd", {"noise": 0.1}, {"noise": 0.0, "protecting": False}, steps=True),
)
SPLIT = (
    Case("swr", {"features": 1e-2, "classifier": 1e-1}, {"features": 0.0, "classifier": 0.0}, steps=True),
    Case("swr-reinit", {"features": 1e-2, "classifier": 1e-1}, {"features": 0.0, "classifier": 0.0}, steps=True),
)
COMPOSED = (
    Case("swr+hare-tortoise", {"coefficient": 1e-2, "hare-tortoise.every": 2}),
    Case("shrink-perturb+swr+ema", {"shrink-perturb.coefficient": 0.4, "swr.coefficient": 1e-2}),
    Case("redo+l2+head-reset", {"threshold": 0.5, "every": 1, "coefficient": 1e-2}),
    Case(
        "cautious-decay+swr-reinit+parseval",
        dict.fromkeys(("cautious-decay.coefficient", "swr-reinit.coefficient", "parseval.coefficient"), 1e-2),
    ),
)
"""several methods at once"""
BY_NAME = [str(case) for case in CASES]


class Loop:
    """A user's own loop around one method."""

    def __init__(
        self,
        model: str,
        name: str,
        hyper: dict[str, Any],
        *,
        seed: int = 0,
        attach: bool = True,
        adam: bool = True,
        layout: torch.memory_format | None = None,
    ) -> None:
        torch.manual_seed(seed)
        build, self.shape = (MODELS | ODD)[model]
        self.model = build()
        if layout is not None:
            self.model.to(memory_format=layout)
        if adam:
            self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-2, fused=True)
        else:
            self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-2, momentum=0.9)
        self.method = methods.build(name, self.model, torch.zeros(2, *self.shape), seed=seed, **hyper)
        if attach:
            self.method.attach(self.optimizer)

    def batch(self, number: int) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(number)
        return torch.randn(6, *self.shape, generator=generator), torch.randint(5, (6,), generator=generator)

    def train(self, first: int, last: int) -> None:
        for number in range(first, last):
            inputs, labels = self.batch(number)
            self.model.train()
            loss = F.cross_entropy(self.model(inputs), labels)
            penalty = None if self.method.attached else self.method.penalty()
            if penalty is not None:
                loss = loss + penalty
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()

    def new_task(self) -> None:
        self.method.new_task([self.batch(0)], F.cross_entropy)

    def tensors(self) -> dict[str, Tensor]:
        return {name: tensor.clone() for name, tensor in self.model.state_dict().items()}

    def kinds(self, names: set[str]) -> set[str]:
        """What these tensors of the model are, in the words of ``Case.touches``."""
        modules, parameters = dict(self.model.named_modules()), dict(self.model.named_parameters(remove_duplicate=False))
        found = set()
        for name in names:
            owner, _, last = name.rpartition(".")
            if name not in parameters:
                found.add("buffer")
            elif isinstance(modules[owner], NORMALISATION):
                found.add("norm")
            else:
                assert is_convolution(modules[owner]) or isinstance(modules[owner], nn.Linear)
                found.add(last)
        return found


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return all(torch.equal(one[name], other[name]) for name in one)


def changed(before: dict[str, Tensor], after: dict[str, Tensor]) -> set[str]:
    return {name for name in before if not torch.equal(before[name], after[name])}
