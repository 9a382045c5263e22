"""One table of methods that drives the common tests, and the small networks they run on."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from swr import methods
from swr.bench import models

NARROW = tuple(width // 16 for width in models.VGG16)

MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, int, int]]] = {
    "mlp": (lambda: models.mlp((1, 8, 8), 5, hidden=16), (1, 8, 8)),
    "cnn": (lambda: models.cnn((3, 18, 18), 5, width=4, hidden=12), (3, 18, 18)),
    "cnnbn": (lambda: models.cnn((3, 18, 18), 5, normalised=True, width=4, hidden=12), (3, 18, 18)),
    "vgg16": (lambda: models.vgg16((3, 32, 32), 5, widths=NARROW, hidden=24), (3, 32, 32)),
}


@dataclass(frozen=True)
class Case:
    name: str
    hyper: dict[str, float] = field(default_factory=dict)
    inert: dict[str, float] | None = None
    """a setting that does nothing; None: the method acts at new tasks only"""
    steps: bool = False
    """whether it acts at every step"""
    tasks: bool = False
    """whether it acts at new tasks"""

    def __str__(self) -> str:
        return "-".join([self.name, *self.hyper])


CASES = (
    Case("vanilla", {}, {}),
    Case("l2", {"coefficient": 1e-2}, {"coefficient": 0.0}, steps=True),
    Case("l2-init", {"coefficient": 1e-1}, {"coefficient": 0.0}, steps=True),
    Case("shrink-perturb", {"coefficient": 0.4}, {"coefficient": 0.0}, tasks=True),
    Case("head-reset", {}, tasks=True),
    Case("full-reset", {}, tasks=True),
    Case("swr", {"coefficient": 1e-2}, {"coefficient": 0.0}, steps=True),
    Case("swr-reinit", {"coefficient": 1e-2}, {"coefficient": 0.0}, steps=True),
)
SPLIT = (
    Case("swr", {"features": 1e-2, "classifier": 1e-1}, {"features": 0.0, "classifier": 0.0}, steps=True),
    Case("swr-reinit", {"features": 1e-2, "classifier": 1e-1}, {"features": 0.0, "classifier": 0.0}, steps=True),
)
BY_NAME = [str(case) for case in CASES]


class Loop:
    """A user's own loop around one method."""

    def __init__(self, model: str, name: str, hyper: dict[str, float], *, seed: int = 0, attach: bool = True) -> None:
        torch.manual_seed(seed)
        build, self.shape = MODELS[model]
        self.model = build()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-2, fused=True)
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
            penalty = self.method.penalty()
            if penalty is not None:
                loss = loss + penalty
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()

    def new_task(self) -> None:
        self.method.new_task([self.batch(0)], F.cross_entropy)

    def tensors(self) -> dict[str, Tensor]:
        return {name: tensor.clone() for name, tensor in self.model.state_dict().items()}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return all(torch.equal(one[name], other[name]) for name in one)


def changed(before: dict[str, Tensor], after: dict[str, Tensor]) -> set[str]:
    return {name for name in before if not torch.equal(before[name], after[name])}
