"""What a rescale costs: ratios measured side by side in one run, on one thread.

python benchmarks/rescale.py
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

import swr
from timing import Row, ratio, show, side_by_side


def vgg16(classes: int = 1000, hidden: int = 4096, spatial: int = 7) -> nn.Sequential:
    """VGG-16 with 138 M parameters (ImageNet head), 135 M of them in 16 weight matrices and biases at 10 classes."""
    layers: list[nn.Module] = []
    channels = 3
    for width in (64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0):
        if width:
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU()]
            channels = width
        else:
            layers.append(nn.MaxPool2d(2))
    layers += [nn.Flatten(), nn.Linear(512 * spatial**2, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(hidden, classes))


def mlp() -> nn.Sequential:
    """784-100-100-10, the paper's MLP."""
    return nn.Sequential(nn.Linear(784, 100), nn.ReLU(), nn.Linear(100, 100), nn.ReLU(), nn.Linear(100, 10))


AIMS: dict[str, dict[str, Any]] = {
    "coefficient": {"coefficient": 1e-3},
    "budget, reached": {"growth": 1.0, "anchors": "initial"},
    "budget, not reached": {"growth": 10.0},
}


def large() -> list[Row]:
    rows = [row for name in AIMS for row in _large(name)]
    return sorted(rows, key=lambda row: row[1].rpartition(" / ")[2])


def _large(name: str) -> list[Row]:
    model = vgg16(classes=10)
    rescaler = swr.SoftWeightRescaling(model, torch.randn(1, 3, 224, 224), **AIMS[name])
    for p in model.parameters():
        p.grad = torch.randn_like(p) * 1e-3
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    optimizer.step()
    source = [p.detach() for p in model.parameters()]
    target = [torch.empty_like(p) for p in source]
    copying = side_by_side({"rescale": rescaler.step, "memcpy": lambda: torch._foreach_copy_(target, source)}, rounds=30)
    stepping = side_by_side({"rescale": rescaler.step, "fused Adam": optimizer.step}, rounds=15)
    size = f"VGG-16, {sum(p.numel() for p in source) / 1e6:.0f} M parameters"
    state = 8 * (len(rescaler.state_dict()["anchors"]) + len(rescaler.state_dict()["optimizers"][0]["pending"]))
    full = sum(p.numel() * p.element_size() for p in source)
    print(f"{size}, {name}: rescale {statistics.median(copying['rescale']) * 1e3:.1f} ms")
    print(f"state kept: SWR {state} bytes ({state // len(source)} a parameter tensor), L2 Init {full / 1e6:.0f} MB\n")
    return [
        (size, f"rescale, {name} / memcpy", ratio(copying, "rescale", "memcpy"), "<= 1.25"),
        (size, f"rescale, {name} / fused Adam step", ratio(stepping, "rescale", "fused Adam"), "<= 0.75"),
    ]


def small() -> list[Row]:
    inputs, labels = torch.randn(256, 784), torch.randint(10, (256,))

    def training(kind: str) -> Callable[[], None]:
        torch.manual_seed(0)
        model = mlp()
        optimizer = torch.optim.Adam(model.parameters(), fused=True)
        parameters = list(model.parameters())
        initial = [p.detach().clone() for p in parameters]
        if kind in AIMS:
            swr.SoftWeightRescaling(model, inputs, **AIMS[kind]).attach(optimizer)

        def step() -> None:
            loss = nn.functional.cross_entropy(model(inputs), labels)
            if kind == "L2":
                loss = loss + 0.5e-3 * sum(p.square().sum() for p in parameters)
            elif kind == "L2 Init":
                loss = loss + 0.5e-3 * sum((p - p0).square().sum() for p, p0 in zip(parameters, initial, strict=True))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

        return step

    times = side_by_side({kind: training(kind) for kind in ("vanilla", *AIMS, "L2", "L2 Init")}, rounds=60, inner=20)
    size = "MLP 784-100-100-10, batch 256"
    for kind, seconds in times.items():
        print(f"{size}, {kind}: {statistics.median(seconds) * 1e6:.0f} us a step")
    print()
    return [
        *((size, f"step with SWR, {name} / without", ratio(times, name, "vanilla"), "<= 1.05") for name in AIMS),
        (size, "step with SWR, coefficient / with L2", ratio(times, "coefficient", "L2"), "< 1"),
        (size, "step with SWR, coefficient / with L2 Init", ratio(times, "coefficient", "L2 Init"), "< 1"),
    ]


def deep(layers: int = 300) -> None:
    """What comes before the first step, without tracing: the plan's matrix is built once."""
    model = nn.Sequential(*[module for _ in range(layers) for module in (nn.Linear(8, 8), nn.ReLU())])
    optimizer = torch.optim.Adam(model.parameters())
    for name, aim in AIMS.items():
        seconds = []
        for _ in range(5):
            plan = swr.chain(model)
            start = time.thread_time()
            swr.SoftWeightRescaling(model, plan=plan, **aim).attach(optimizer).remove()
            seconds.append(time.thread_time() - start)
        print(f"construct + attach, a plan of {layers} layers, {name}: {statistics.median(seconds):.3f} s (bound: 0.2 s)")
    print()


def main() -> None:
    torch.set_num_threads(1)
    deep()
    show(small() + large())


if __name__ == "__main__":
    main()
