"""Experiments of our own that ask the paper's questions in another way. A new one is one more entry."""

from __future__ import annotations

from swr.bench.experiments.chunks import SINGLE
from swr.bench.experiments.experiment import Experiment, Staged
from swr.bench.experiments.published import TUNED

OURS: dict[str, Experiment] = {
    one.name: one
    for one in (
        Staged(
            "lr-cosine",
            "200 epochs on all data, the learning rate falls to 0 along a cosine; not in the paper",
            SINGLE,
            epochs=(200,),
            methods=("vanilla", "l2", "l2-init", "swr"),
            title="Cosine learning rate",
            lr_schedule="cosine",
            nearest=TUNED[:2],
        ),
    )
}
