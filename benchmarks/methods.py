"""What a training step costs with each method, against plain training: ratios measured side by side in one run, on one thread.

    python benchmarks/methods.py [METHOD ...]

A step is forward, backward and a step of fused Adam, to which the method is attached, on one batch of 256 that lies ready, on
the paper's MLP (28x28) and CNN (32x32). Methods have their defaults; those without get a λ of 1e-3 or a ratio of 0.5. What
acts at new tasks, or every thousandth step, costs what it costs in between.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from swr import methods
from swr.bench.experiments import models
from swr.bench.training.process import flushed_denormals
from timing import ratio, side_by_side

SHAPES = {"mlp": (1, 28, 28), "cnn": (3, 32, 32)}
TURNS = {"mlp": (60, 20), "cnn": (20, 2)}
"""rounds, and steps in each"""
HEAD = "step with / without"
VALUES = {"coefficient": 1e-3, "ratio": 0.5}
"""of hyper-parameters without a default"""


def training(network: str, method: str) -> Callable[[], None]:
    """One step with a method."""
    torch.manual_seed(0)
    model = models.build(network, SHAPES[network], 10)
    inputs, labels = torch.randn(256, *SHAPES[network]), torch.randint(10, (256,))
    if network != "mlp":
        inputs = inputs.contiguous(memory_format=torch.channels_last)
    parameters = list(model.parameters())
    optimizer = torch.optim.Adam(parameters, fused=True)
    method_ = methods.build(method, model, inputs[:2], **needed(method))
    method_.attach(optimizer)
    model.train()

    def step() -> None:
        loss = F.cross_entropy(model(inputs), labels)
        for p in parameters:
            p.grad = None
        loss.backward()
        optimizer.step()

    return step


def needed(method: str) -> dict[str, Any]:
    """The hyper-parameters that have no default."""
    options = inspect.signature(methods.find(method)).parameters
    return {name: value for name, value in VALUES.items() if name in options and not isinstance(options[name].default, float)}


def cost(network: str, method: str) -> float:
    """The step with a method / without."""
    rounds, inner = TURNS[network]
    pair: dict[str, Callable[[], object]] = {"method": training(network, method), "vanilla": training(network, "vanilla")}
    return ratio(side_by_side(pair, rounds, inner), "method", "vanilla")


def main() -> None:
    torch.set_num_threads(1)
    names = sys.argv[1:] or [name for name in methods.names() if name != "vanilla"]
    width = max(map(len, [*names, HEAD]))
    print(f"{HEAD:<{width}}  " + "  ".join(f"{network:>6}" for network in SHAPES))
    with flushed_denormals():
        for name in names:
            print(f"{name:<{width}}  " + "  ".join(f"{cost(network, name):6.2f}" for network in SHAPES), flush=True)


if __name__ == "__main__":
    main()
