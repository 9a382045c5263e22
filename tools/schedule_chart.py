"""Norms under six learning-rate schedules, with a budget, with a coefficient and with neither.

python tools/schedule_chart.py        writes docs/figures/growth-schedules.svg
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import altair as alt
import torch
import vl_convert
from torch import nn
from torch.optim import Optimizer
from torch.optim import lr_scheduler as schedulers

import swr
from swr.bench.data import load
from swr.bench.training import Feed
from swr.norms import frobenius_norms

EPOCHS, BATCH, LR = 60, 32, 3e-3
FIGURE = Path(__file__).parents[1] / "docs" / "charts" / "growth-schedules.svg"

SCHEDULES: dict[str, Callable[[Optimizer, int], schedulers.LRScheduler]] = {
    "constant": lambda optimizer, steps: schedulers.ConstantLR(optimizer, factor=1.0),
    "step drops": lambda optimizer, steps: schedulers.MultiStepLR(optimizer, [steps // 2, 3 * steps // 4]),
    "cosine": lambda optimizer, steps: schedulers.CosineAnnealingLR(optimizer, steps),
    "warm-up": lambda optimizer, steps: schedulers.LinearLR(optimizer, 0.01, 1.0, steps // 3),
    "1-cycle": lambda optimizer, steps: schedulers.OneCycleLR(optimizer, 2 * LR, total_steps=steps + 1),
    "restarts": lambda optimizer, steps: schedulers.CosineAnnealingWarmRestarts(optimizer, steps // 4),
}
LINES: dict[str, tuple[str, dict[str, Any] | None]] = {
    "budget 1.5": ("#c45000", {"growth": 1.5, "anchors": "initial"}),
    "coefficient 1e-3": ("#0163a0", {"coefficient": 1e-3}),
    "neither": ("#767676", None),
}


def norms(schedule: str, options: dict[str, Any] | None) -> list[float]:
    """The largest norm among the layers over its initial one, after every epoch on digits.

    The labels are shuffled again every ten epochs, so that there is always something to learn and norms grow.
    """
    digits = load("digits")
    images, labels = Feed(digits.train, digits).batch(torch.arange(len(digits.train)))
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 100), nn.ReLU(), nn.Linear(100, 100), nn.ReLU(), nn.Linear(100, 10))
    weights = [p.detach() for p in model.parameters() if p.ndim == 2]
    start = frobenius_norms(weights)
    optimizer = torch.optim.Adam(model.parameters(), lr=LR)
    if options is not None:
        swr.SoftWeightRescaling(model, images[:2], **options).attach(optimizer)
    made = SCHEDULES[schedule](optimizer, EPOCHS * -(-len(images) // BATCH))
    found = []
    targets = labels
    for epoch in range(EPOCHS):
        targets = labels[torch.randperm(len(labels))] if epoch % 10 == 0 else targets
        for index in torch.randperm(len(images)).split(BATCH):
            loss = nn.functional.cross_entropy(model(images[index]), targets[index])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            made.step()
        found.append(float((frobenius_norms(weights) / start).max()))
    return found


def main() -> None:
    """Train, and draw."""
    rows = [
        {"schedule": schedule, "line": line, "epoch": epoch, "ratio": ratio}
        for schedule in SCHEDULES
        for line, (_, options) in LINES.items()
        for epoch, ratio in enumerate(norms(schedule, options), 1)
    ]
    colours = alt.Scale(domain=list(LINES), range=[colour for colour, _ in LINES.values()])
    chart = (
        alt.Chart(alt.InlineData(values=rows), width=200, height=130)
        .mark_line()
        .encode(
            x=alt.X("epoch:Q"),
            y=alt.Y("ratio:Q", title="largest norm / initial norm", scale=alt.Scale(type="log", nice=False)),
            color=alt.Color("line:N", scale=colours, sort=list(LINES), title=None),
        )
        .facet(alt.Facet("schedule:N", sort=list(SCHEDULES), title=None), columns=3)
    )
    FIGURE.write_text(vl_convert.vegalite_to_svg(chart.to_json()), encoding="utf-8")
    print(f"written: {FIGURE.name}")


if __name__ == "__main__":
    main()
