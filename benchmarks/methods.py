"""What a training step costs with each method, against plain training: ratios measured side by side in one run, on one thread.

    python benchmarks/methods.py [METHOD ...]
    python benchmarks/methods.py --record      the MLP's costs of every row of the leaderboard, and the memory that each keeps

A step is forward, backward and a step of fused Adam, to which the method is attached, on one batch of 256 that lies ready, on
the paper's MLP (28x28) and CNN (32x32). Methods have their defaults; those without get a λ of 1e-3 or a ratio of 0.5. What
acts at new tasks, or every thousandth step, costs what it costs in between. Rows of the leaderboard have the middle one of the
configurations that it tries.
"""

from __future__ import annotations

import inspect
import platform
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from swr import methods
from swr.bench.experiments import board, models
from swr.bench.report.leaderboard import costs
from swr.bench.training.process import flushed_denormals
from timing import ratio, side_by_side

SHAPES = {"mlp": (1, 28, 28), "cnn": (3, 32, 32)}
TURNS = {"mlp": (60, 20), "cnn": (20, 2)}
"""rounds, and steps in each"""
HEAD = "step with / without"
VALUES = {"coefficient": 1e-3, "ratio": 0.5}
"""of hyper-parameters without a default"""


def training(network: str, method: str, hyper: Mapping[str, Any] | None = None) -> tuple[Callable[[], None], methods.Method]:
    """One step with a method, and the method."""
    torch.manual_seed(0)
    model = models.build(network, SHAPES[network], 10)
    inputs, labels = torch.randn(256, *SHAPES[network]), torch.randint(10, (256,))
    if network != "mlp":
        inputs = inputs.contiguous(memory_format=torch.channels_last)
    parameters = list(model.parameters())
    optimizer = torch.optim.Adam(parameters, fused=True)
    built = methods.build(method, model, inputs[:2], **(needed(method) if hyper is None else hyper))
    built.attach(optimizer)
    model.train()

    def step() -> None:
        loss = F.cross_entropy(model(inputs), labels)
        for p in parameters:
            p.grad = None
        loss.backward()
        optimizer.step()

    return step, built


def memory(method: str, hyper: Mapping[str, Any]) -> float:
    """What a method's state holds after some steps and a new task, in units of the parameters."""
    step, built = training("mlp", method, hyper)
    step()
    batch = [(torch.randn(256, *SHAPES["mlp"]), torch.randint(10, (256,)))]
    built.new_task(batch, F.cross_entropy)
    step()
    return held(built.state()) / held(dict(built.model.named_parameters()))


def held(state: Any) -> int:
    """The bytes of all tensors in a state, without random numbers."""
    if isinstance(state, torch.Tensor):
        return state.nbytes
    if isinstance(state, Mapping):
        return sum(held(value) for key, value in state.items() if key != "generator")
    return sum(map(held, state)) if isinstance(state, (list, tuple)) else 0


def needed(method: str) -> dict[str, Any]:
    """The hyper-parameters that have no default."""
    options = inspect.signature(methods.find(method)).parameters
    return {name: value for name, value in VALUES.items() if name in options and not isinstance(options[name].default, float)}


def cost(network: str, method: str, hyper: Mapping[str, Any] | None = None) -> float:
    """The step with a method / without."""
    rounds, inner = TURNS[network]
    pair: dict[str, Callable[[], object]] = {
        "method": training(network, method, hyper)[0],
        "vanilla": training(network, "vanilla", {})[0],
    }
    return ratio(side_by_side(pair, rounds, inner), "method", "vanilla")


def record() -> None:
    """Measure the rows of the leaderboard and write the file that it reads."""
    found: dict[str, costs.Cost] = {}
    for row in board.rows():
        if not row.untuned:
            hyper = dict(row.points[len(row.points) // 2])
            found[row.method] = costs.Cost(cost("mlp", row.method, hyper), memory(row.method, hyper))
            print(f"{row.method}: step {found[row.method].step:.2f}, memory {found[row.method].memory:.2f}", flush=True)
    print(f"written: {costs.record(found, torch.__version__, processor(), time.strftime('%Y-%m-%d')).name}")


def processor() -> str:
    """The name of this machine's processor."""
    file = Path("/proc/cpuinfo")
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.processor())


def main() -> None:
    torch.set_num_threads(1)
    if "--record" in sys.argv:
        with flushed_denormals():
            return record()
    names = sys.argv[1:] or [name for name in methods.names() if name != "vanilla"]
    width = max(map(len, [*names, HEAD]))
    print(f"{HEAD:<{width}}  " + "  ".join(f"{network:>6}" for network in SHAPES))
    with flushed_denormals():
        for name in names:
            print(f"{name:<{width}}  " + "  ".join(f"{cost(network, name):6.2f}" for network in SHAPES), flush=True)
    return None


if __name__ == "__main__":
    main()
