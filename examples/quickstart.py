"""Warm-starting on scikit-learn's digits, 30 % of the training labels shuffled, with and without SWR.

    python examples/quickstart.py

Half of the data first, then all of it. A network that memorised the first half's noise generalises worse than one that
starts afresh; Soft Weight Rescaling keeps it plastic. The two lines that make the difference are marked.
"""

from __future__ import annotations

import argparse
import time

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

import swr


def data(seed: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """1,300 training digits, 30 % of their labels shuffled among themselves, and 497 clean test digits."""
    digits = load_digits()
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(digits.target), generator=generator)
    x = torch.tensor(digits.data, dtype=torch.float32)[order]
    y = torch.tensor(digits.target)[order]
    x = (x - x[:1300].mean()) / x[:1300].std()
    noisy = torch.randperm(1300, generator=generator)[:390]
    y[noisy] = y[noisy[torch.randperm(390, generator=generator)]]
    return x[:1300], y[:1300], x[1300:], y[1300:]


def train(name: str, coefficient: float | None, stages: list[float], epochs: int, seed: int) -> float:
    """Train through the stages, each a fraction of the data; returns the final test accuracy."""
    x, y, test_x, test_y = data(seed)
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(64, 100), nn.ReLU(), nn.Linear(100, 100), nn.ReLU(), nn.Linear(100, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    if coefficient is not None:
        rescaler = swr.SoftWeightRescaling(model, x[:1], coefficient=coefficient)  # the first line
        rescaler.attach(optimizer)  # the second line
    generator = torch.Generator().manual_seed(seed)
    accuracy = 0.0
    for stage, fraction in enumerate(stages, start=1):
        count = round(fraction * len(x))
        start = time.perf_counter()
        for _ in range(epochs):
            for batch in torch.randperm(count, generator=generator).split(32):
                loss = nn.functional.cross_entropy(model(x[batch]), y[batch])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        with torch.no_grad():
            accuracy = float((model(test_x).argmax(1) == test_y).float().mean())
        seconds = time.perf_counter() - start
        norms = " ".join(f"{float(p.detach().norm()):.1f}" for p in model.parameters() if p.ndim == 2)
        print(
            f"  {name:<22} stage {stage}: {fraction:4.0%} of the data, {epochs} epochs, "
            f"test accuracy {accuracy:.3f}, weight norms {norms} ({seconds:.1f} s)",
            flush=True,
        )
    return accuracy


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=60, help="epochs per stage (default: 60)")
    parser.add_argument("--seed", type=int, default=0, help="of the data, the network and the order of batches")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("Digits with 30 % shuffled training labels: half of the data, then all of it.\n")
    results = {
        "vanilla, from scratch": train("vanilla, from scratch", None, [1.0], options.epochs, options.seed),
        "vanilla, warm start": train("vanilla, warm start", None, [0.5, 1.0], options.epochs, options.seed),
        "SWR, warm start": train("SWR, warm start", 1e-2, [0.5, 1.0], options.epochs, options.seed),
    }
    print("\nFinal test accuracy")
    for name, accuracy in results.items():
        print(f"  {name:<22} {accuracy:.3f}  {'#' * round(40 * accuracy)}")


if __name__ == "__main__":
    main()
