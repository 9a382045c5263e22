"""What a rescale can do on a transformer under "hold", "pass" and "free": docs/transformers.md's first table.

    python tools/transformer_modes.py --data FOLDER

A vision transformer is trained on 4,000 images of CIFAR-10 without any method. Copies of it are then brought back to their
initial norms as far as each mode allows, in one rescale: how much of the growth is taken back, and what does it do to the
training loss at once? Each copy then trains on for a hundred steps, with a budget at the norms it has then; the batches are the
same.
"""

from __future__ import annotations

import argparse
import copy
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import swr
from swr.bench.data import load
from swr.bench.experiments.models import build
from swr.bench.training import Feed
from swr.norms import frobenius_norms

Mode = Literal["hold", "pass", "free"]
EXAMPLES, BATCH, LR, CLIP, STEPS = 4000, 256, 1e-3, 0.5, 100


def train(model: nn.Module, images: Tensor, labels: Tensor, steps: int, seed: int, rescaled: swr.ScalePlan | None) -> float:
    """Train; the mean loss of the last tenth of the steps.

    Args:
        rescaled: The plan of a rescaler with a budget of 1 at the present norms; None for none.
    """
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=LR, fused=True)
    if rescaled is not None:
        swr.SoftWeightRescaling(model, plan=rescaled, growth=1.0, anchors="initial").attach(optimizer)
    losses = []
    for _ in range(steps):
        index = torch.randint(len(images), (BATCH,), generator=generator)
        loss = F.cross_entropy(model(images[index]), labels[index])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        losses.append(float(loss.detach()))
    last = losses[-max(1, steps // 10) :]
    return sum(last) / len(last)


@torch.no_grad()
def loss_of(model: nn.Module, images: Tensor, labels: Tensor) -> float:
    """The mean loss over some of the images."""
    return float(F.cross_entropy(model(images[:1000]), labels[:1000]))


def taken_back(before: Mapping[str, float], grown: Mapping[str, float], after: Mapping[str, float]) -> float:
    """The part of the logarithmic growth, over the weights that grew, that a rescale has undone."""
    growth = {name: math.log(grown[name] / before[name]) for name in before if grown[name] > before[name]}
    return sum(math.log(grown[name] / after[name]) for name in growth) / sum(growth.values())


def _norms(model: nn.Module, weights: Sequence[str]) -> dict[str, float]:
    parameters = dict(model.named_parameters())
    return dict(zip(weights, frobenius_norms([parameters[name].detach() for name in weights]).tolist(), strict=True))


def main() -> None:
    """Train, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--steps", type=int, default=500, help="of training before the comparison")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    dataset = load("cifar10", options.data)
    images, labels = Feed(dataset.train, dataset).batch(torch.arange(EXAMPLES))
    print("| seed | mode | growth taken back | loss at once | loss after 100 steps | largest norm / initial |")
    print("|---|---|---|---|---|---|")
    for seed in range(options.seeds):
        torch.manual_seed(seed)
        model = build("vit", (3, 32, 32), 10)
        weights = swr.analyze(model, images[:2]).weights
        start = _norms(model, weights)
        train(model, images, labels, options.steps, seed, None)
        grown = _norms(model, weights)
        top = max(grown[name] / start[name] for name in grown)
        went_on = train(copy.deepcopy(model), images, labels, STEPS, 1000 + seed, None)
        print(f"| {seed} | untouched | | {loss_of(model, images, labels):.4f} | {went_on:.4f} | {top:.2f} |", flush=True)
        for mode in get_args(Mode):
            twin = copy.deepcopy(model)
            plan = swr.analyze(twin, images[:2], inhomogeneous=mode)
            swr.rescale(twin, plan, {name: start[name] / grown[name] for name in weights})
            after = _norms(twin, weights)
            share = taken_back(start, grown, after)
            top = max(after[name] / start[name] for name in after)
            at_once = loss_of(twin, images, labels)
            later = train(twin, images, labels, STEPS, 1000 + seed, plan)
            print(f"| {seed} | {mode} | {share:.0%} | {at_once:.4f} | {later:.4f} | {top:.2f} |", flush=True)


if __name__ == "__main__":
    main()
