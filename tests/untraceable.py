"""Small models that torch.export cannot trace, for tests of what is said about them and of chains."""

import re

import torch
from torch import Tensor, nn


class Layers(nn.Module):
    """Three layers of one width, which a forward below connects."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.head = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 3)


class CheckedChain(Layers):
    """A chain that looks at its values, and does the same whatever it sees."""

    def forward(self, x: Tensor) -> Tensor:
        x = self.a(x).relu()
        if torch.isnan(x).any():
            raise ValueError("not a number")
        return self.head(self.b(x).relu())


class CheckedResidual(Layers):
    def forward(self, x: Tensor) -> Tensor:
        y = self.b(self.a(x).relu())
        if torch.isnan(y).any():
            raise ValueError("not a number")
        return self.head(x + y)


class Skipping(Layers):
    """A chain for inputs of one sign only."""

    def forward(self, x: Tensor) -> Tensor:
        x = self.b(self.a(x).relu()) if x.sum() > 0 else x
        return self.head(x)


class Looping(Layers):
    def forward(self, x: Tensor) -> Tensor:
        while x.norm() < 30:
            x = 3 * self.b(self.a(x).relu()) + x
        return self.head(x)


class Counting(Layers):
    def forward(self, x: Tensor, rounds: Tensor) -> Tensor:
        for _ in range(int(rounds)):
            x = self.a(x).relu()
        return self.head(self.b(x))


class Weighing(Layers):
    """A chain with a number taken out of a tensor."""

    def forward(self, x: Tensor) -> Tensor:
        size = float(x.abs().max())
        return self.head(self.b(self.a(x).relu()).relu()) * size


class Leaving(Layers):
    """A chain that leaves torch on its way."""

    def forward(self, x: Tensor) -> Tensor:
        x = torch.from_numpy(2 * x.detach().numpy())
        return self.head(self.b(self.a(x).relu()).relu())


class Answer:
    def __init__(self, logits: Tensor) -> None:
        self.logits = logits


class Answering(Layers):
    def forward(self, x: Tensor) -> Answer:
        return Answer(self.head(self.b(self.a(x))))


def make(build: type[nn.Module], seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return build()


def is_one_sentence(message: str) -> bool:
    return "\n" not in message and message.endswith(".") and re.search(r"[.!?] +[A-Z]", message) is None
