"""Watch a network while it trains, with and without SWR: norms, the limit of Theorem 2, and other measures of its health.

    python examples/monitoring.py                                                                    digits, seconds
    SWR_DATA=FOLDER python examples/monitoring.py --dataset cifar10 --epochs 5 --coefficient 1e-3    the paper's CNN, minutes

Two lines make a monitor; they are marked. Norms and limits are looked at in every step, so that B is Theorem 2's own; the
measures that run the network five times in a run. With ``--out FOLDER`` all of it is kept as CSV.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
import torch.nn.functional as F

import swr
from swr.bench.data import Dataset, load
from swr.bench.experiments import models
from swr.bench.training import Feed
from swr.diagnostics import Monitor
from swr.diagnostics.monitor.recording import Name

BATCH = 256


def train(dataset: Dataset, coefficient: float | None, epochs: int, seed: int, out: Path | None) -> list[dict[str, float]]:
    """Train as in the paper (Adam, lr 1e-3, batches of 256); returns the monitor's rows."""
    torch.manual_seed(seed)
    channels, height, width = dataset.train.images.shape[1:]
    name = "cnn" if min(height, width) >= 16 and channels == 3 else "mlp"
    model = models.build(name, (channels, height, width), dataset.classes)
    feeds = [Feed(split, dataset, channels_last=name == "cnn") for split in (dataset.train, dataset.test)]
    probe = feeds[1].batch(torch.arange(min(512, len(feeds[1]))))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    rescaler = None
    if coefficient is not None:
        rescaler = swr.SoftWeightRescaling(model, probe[0][:1], coefficient=coefficient)
        rescaler.attach(optimizer)

    def accuracy(network: torch.nn.Module) -> float:
        with torch.inference_mode():
            right = sum(int((network(x).argmax(1) == y).sum()) for x, y in feeds[1].chunks(1024))
        return right / len(feeds[1])

    cheap: list[Name] = ["norm", "ratio", "balance", "update"]
    if rescaler is not None:
        cheap.append("limit")
    costly: list[Name] = ["dormant", "rank", "lipschitz", "curvature", accuracy]
    seldom = -(-len(feeds[0]) // BATCH) * max(1, epochs // 5)
    monitor = Monitor(  # the first line
        model,
        measures={**dict.fromkeys(cheap, 1), **dict.fromkeys(costly, seldom)},
        anchors=rescaler,
        batch=probe,
        loss_fn=F.cross_entropy,
        to=None if out is None else out / f"{'vanilla' if coefficient is None else 'swr'}.csv",
    )
    monitor.attach(optimizer)  # the second line
    generator = torch.Generator().manual_seed(seed)
    for _ in range(epochs):
        for index in torch.randperm(len(feeds[0]), generator=generator).split(BATCH):
            inputs, labels = feeds[0].batch(index)
            optimizer.zero_grad()
            F.cross_entropy(model(inputs), labels).backward()
            optimizer.step()
    monitor.record()
    return monitor.rows


def show(vanilla: list[dict[str, float]], rescaled: list[dict[str, float]]) -> None:
    layers = [name.removeprefix("norm/") for name in vanilla[0] if name.startswith("norm/")]
    print(f"\n{'layer':<10}  start  vanilla    SWR  SWR at most  limit B'  least slack")
    for layer in layers:
        norms = [row[f"norm/{layer}"] for row in rescaled]
        slack = min(row[f"slack/{layer}"] for row in rescaled[1:-1])
        print(
            f"{layer:<10} {norms[0]:6.3f}   {vanilla[-1][f'norm/{layer}']:6.3f} {norms[-1]:6.3f}       {max(norms):6.3f}  "
            f"{rescaled[-2][f'limit/{layer}']:8.2f}     {slack:8.2f}"
        )
    print(f"\n{'':<22} {'start':>9} {'vanilla':>9} {'SWR':>9}")
    for name in (
        "accuracy", "balance/largest", "dormant", "rank/effective", "rank/stable", "lipschitz/spectral",
        "lipschitz/frobenius", "curvature",
    ):  # fmt: skip
        print(f"{name:<22} {rescaled[0][name]:9.4g} {vanilla[-1][name]:9.4g} {rescaled[-1][name]:9.4g}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="digits", help="digits, mnist, cifar10, ... (default: digits)")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--coefficient", type=float, default=1e-2, help="λ (default: 1e-2)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="folder for vanilla.csv and swr.csv")
    options = parser.parse_args()
    torch.set_num_threads(1)
    dataset = load(options.dataset)
    print(f"{options.dataset}, {options.epochs} epochs, λ = {options.coefficient:g}, seed {options.seed}")
    runs = [train(dataset, λ, options.epochs, options.seed, options.out) for λ in (None, options.coefficient)]
    show(*runs)


if __name__ == "__main__":
    main()
