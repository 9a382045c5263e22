"""Networks whose plasticity is known, and what `swr.diagnose` says about each.

    python examples/diagnose_known.py                   # digits, no download: a few minutes
    python examples/diagnose_known.py --data mnist      # the paper's MLP; needs `swr data download mnist`

Prints one line per network: the verdict, whether it was expected, and the layer whose re-initialisation closes most of the gap.
"""

from __future__ import annotations

import argparse
import copy
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import swr
from swr import methods
from swr.bench.data import load
from swr.diagnostics.diagnosis.advice import culprit


@dataclass(frozen=True)
class Known:
    """A network, and what is true of it."""

    name: str
    network: nn.Sequential
    relabelled: str  # the verdicts that are right on relabelled classes, separated by spaces
    shuffled: str  # the same on shuffled targets
    layer: str | None = None  # the one that was damaged


def images(name: str, count: int = 5120) -> tuple[Tensor, Tensor]:
    split = load(name).train
    x = split.images[:count].float().flatten(1)
    return (x - x.mean()) / x.std(), split.labels[:count].long()


def factory(width: int) -> Callable[[], nn.Sequential]:
    return lambda: nn.Sequential(nn.Linear(width, 100), nn.ReLU(), nn.Linear(100, 100), nn.ReLU(), nn.Linear(100, 10))


def trained(network: nn.Sequential, x: Tensor, y: Tensor, steps: int, seed: int, lr: float = 1e-3) -> nn.Sequential:
    network, generator = copy.deepcopy(network), torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(network.parameters(), lr=lr, fused=True)
    for _ in range(steps):
        index = torch.randint(len(x), (128,), generator=generator)
        loss = F.cross_entropy(network(x[index]), y[index])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return network


def shuffled_for_long(network: nn.Sequential, x: Tensor, y: Tensor, seed: int, tasks: int = 20) -> nn.Sequential:
    """One task of shuffled labels after the other."""
    x, y = x[:1280], y[:1280]
    generator = torch.Generator().manual_seed(seed)
    for task in range(tasks):
        network = trained(network, x, y[torch.randperm(len(y), generator=generator)], 600, seed=task, lr=2e-3)
    return network


@torch.no_grad()
def zeroed(network: nn.Sequential, layer: int, units: int) -> nn.Sequential:
    """Units without incoming and outgoing weights: no gradient ever reaches them."""
    network = copy.deepcopy(network)
    state = network.state_dict()
    state[f"{layer}.weight"][:units] = 0
    state[f"{layer}.bias"][:units] = 0
    state[f"{layer + 2}.weight"][:, :units] = 0
    return network


@torch.no_grad()
def saturated(network: nn.Sequential, layer: int, units: int) -> nn.Sequential:
    """Units that are off for every input, and so keep their weights."""
    network = copy.deepcopy(network)
    network.state_dict()[f"{layer}.bias"][:units] = -1e3
    return network


def frozen(network: nn.Sequential) -> nn.Sequential:
    """Only the last layer learns."""
    network = copy.deepcopy(network).requires_grad_(False)
    network[-1].requires_grad_(True)
    return network


def after(network: nn.Sequential, method: str, **options: float) -> nn.Sequential:
    network = copy.deepcopy(network)
    methods.build(method, network, **options).new_task()
    return network


def known_networks(make: Callable[[], nn.Sequential], x: Tensor, y: Tensor, seed: int) -> list[Known]:
    torch.manual_seed(1000 + seed)
    fresh = make()
    normal = trained(fresh, x, y, 2000, seed)
    shuffled = shuffled_for_long(fresh, x, y, seed)
    return [
        Known("fresh", fresh, "none", "none"),
        Known("trained on its labels", normal, "none", "some lost"),
        Known("… after full reset", after(normal, "full-reset"), "none", "none"),
        Known("shuffled labels for long", shuffled, "some lost", "lost"),
        Known("… after S&P", after(shuffled, "shrink-perturb-fresh", retain=0.1, noise=0.9), "none", "none some"),
        Known("… after full reset", after(shuffled, "full-reset"), "none", "none"),
        Known("90 % of layer 0 zeroed", zeroed(fresh, 0, 90), "some lost", "some lost", layer="0"),
        Known("90 % of layer 2 zeroed", zeroed(fresh, 2, 90), "some lost", "some lost", layer="2"),
        Known("90 % of layer 0 saturated", saturated(fresh, 0, 90), "some lost", "some lost", layer="0"),
        Known("all but the head frozen", frozen(fresh), "some lost", "some lost"),
    ]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", choices=["digits", "mnist"], default="digits")
    parser.add_argument("--networks", type=int, nargs="+", default=[0], metavar="SEED", help="seeds of the networks themselves")
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--tasks", nargs="+", choices=["relabelled", "shuffled"], default=["relabelled", "shuffled"])
    arguments = parser.parse_args()
    x, y = images(arguments.data)
    make = factory(x.shape[1])
    batches = list(zip(x.split(128), y.split(128), strict=True))
    print(
        f"{'network':<26} {'task':<10} {'verdict':<8} {'':<5} {'gap in nats':<13} {'steps':>6} {'layer':>5} {'closes':>6}    s"
    )
    wrong = 0
    for seed in arguments.networks:
        for known in known_networks(make, x, y, seed):
            for task in arguments.tasks:
                start = time.process_time()
                found = swr.diagnose(
                    known.network,
                    batches,
                    F.cross_entropy,
                    fresh=make,
                    steps=arguments.steps,
                    seeds=arguments.pairs,
                    targets=task,
                )
                right = found.verdict in getattr(known, task).split()
                layer = culprit(found.layers)
                right &= known.layer is None or (layer is not None and layer.name == known.layer)
                wrong += not right
                both = found.comparison
                where = (
                    f"{layer.name:>5} {layer.recovers:>6.0%}" if layer and layer.recovers is not None else f"{'–':>5} {'–':>6}"
                )
                print(
                    f"{known.name:<26} {task:<10} {found.verdict:<8} {'right' if right else 'WRONG':<5} "
                    f"{both.gap.mean:+.2f} ± {both.gap.half:.2f}  ×{math.exp(both.slowdown.mean):<5.1f} {where} "
                    f"{time.process_time() - start:4.0f}",
                    flush=True,
                )
    print(f"verdicts that are not as expected: {wrong}")


if __name__ == "__main__":
    main()
