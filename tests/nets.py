"""The paper's networks in small, and a training loop, for tests about training rather than about graphs."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

import swr


def mlp() -> nn.Sequential:
    return nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4))


def cnn() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(16, 10), nn.ReLU(), nn.Linear(10, 4),
    )  # fmt: skip


def cnn_bn() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(16, 10), nn.ReLU(), nn.Linear(10, 4),
    )  # fmt: skip


def layer_norm_mlp() -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(12, 16), nn.LayerNorm(16), nn.ReLU(), nn.Linear(16, 16), nn.LayerNorm(16), nn.ReLU(), nn.Linear(16, 4)
    )


def inputs_of(model: nn.Module, batch: int = 8) -> Tensor:
    first = next(model.parameters())
    shape = (batch, 12) if first.ndim == 2 else (batch, 1, 14, 14)
    return torch.randn(shape, dtype=first.dtype)


def make(build: Callable[[], nn.Module], seed: int = 0, dtype: torch.dtype = torch.float64) -> nn.Module:
    torch.manual_seed(seed)
    return build().to(dtype)


def confirmed(rescaler: swr.SoftWeightRescaling) -> swr.SoftWeightRescaling:
    """The anchors are meant to stay, although the weights are written to before the first step: growth is imitated."""
    rescaler.load_state_dict(rescaler.state_dict())
    return rescaler


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int, after: Callable[[], object] | None = None) -> None:
    """Cross-entropy on batches drawn from the global generator; `after` runs after every step."""
    for _ in range(steps):
        x = inputs_of(model)
        labels = torch.randint(4, (len(x),))
        loss = nn.functional.cross_entropy(model(x), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if after is not None:
            after()


def gpt2(layers):
    """A tiny GPT-2 of transformers, in evaluation mode."""
    import transformers

    config = transformers.GPT2Config(
        n_layer=layers, n_embd=32, n_head=4, vocab_size=50, n_positions=16, bos_token_id=0, eos_token_id=0
    )
    return transformers.GPT2LMHeadModel(config).eval()
