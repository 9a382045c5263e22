"""Self-Normalized Resets: reset a unit whose silence is improbable by its own record (Farias and Jozefiak, 2025)."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Any, ClassVar, Literal, get_args

import torch
from torch import Tensor, nn

from swr.checks import choice, fraction, whole
from swr.methods.base import Batches, LossFunction, restore
from swr.methods.bases.unit_method import UnitMethod
from swr.methods.tools.fresh import Initialiser, own_initialiser
from swr.methods.tools.optimizer_state import Policy
from swr.methods.tools.tuning import along

CountedIn = Literal["tasks", "steps"]


BINS = 1024
"""a histogram is never finer than longest / BINS, whatever the batch size"""


def next_thresholds(
    histogram: Tensor, threshold: Tensor, *, rejection: float, width: int, shortest: int, longest: int
) -> Tensor:
    """T of each unit after its silences so far.

        q = smallest a with CDF(a) >= 1 - η,   T <- q if q < T else 2 T,   clipped to [shortest, longest]

    >>> silences = torch.tensor([[0, 8, 1, 0, 1]])
    >>> next_thresholds(silences, torch.tensor([50]), rejection=0.15, width=10, shortest=10, longest=100)
    tensor([20])
    >>> next_thresholds(silences, torch.tensor([15]), rejection=0.15, width=10, shortest=10, longest=100)
    tensor([30])

    A unit without any silence on record has q = 1, as in the authors' code: it falls to the shortest threshold.

    Args:
        histogram: [units, bins], how many silences of bin x ``width`` examples ended; bin 0 (none) is left out.
        threshold: T, in examples.
        rejection: η.
        width: examples in a bin.
        shortest: the smallest T.
        longest: the largest T.
    """
    ended = histogram[:, 1:].double().cumsum(1)
    total = ended[:, -1:]
    quantile = width * (1 + (ended < (1 - rejection) * total).sum(1))
    quantile = torch.where(total[:, 0] > 0, quantile, 1)
    return torch.where(quantile < threshold, quantile, 2 * threshold).clamp(shortest, longest)


class SelfNormalizedResets(UnitMethod):
    """Reset a unit when it has been silent for longer than nearly all of its own silences before.

        it fires (h_i > 0 anywhere in the batch): its silence of age_i examples goes on record, age_i <- 0;  else age_i += batch
        age_i >= T_i:   on record too, age_i <- 0,   W_in fresh,  b_i <- 0,  W_out <- 0
        every U tasks:   T_i <- q_i if q_i < T_i else 2 T_i,   q_i = the 1 - η quantile of the silences on record

    >>> method = SelfNormalizedResets(model, x)
    >>> handle = method.attach(optimizer)
    >>> method.new_task()

    When:
        Ages and resets after every step, thresholds at every U-th new task; without task boundaries choose
        ``counted_in="steps"``. The device is asked for resets only when, by the ages of the last time, there can be one.

    Touches:
        Units of every layer whose incoming and outgoing weights are all known (``method.units.describe()``); entries of a batch
        normalisation after the layer are reset too.

    Keeps:
        Age, threshold and histogram of silences of every unit, the tasks so far. A bin of the histogram is as wide as the first
        batch, or longest / 1024 if that is more; a silence in between counts as the longer one.

    Differences:
        The authors' code, snr.py, is followed: a unit that fires in every batch, whose record is empty, falls to the smallest
        threshold and is reset by one silent batch. The smallest threshold is one batch here, and 100 examples there. A silence
        longer than the largest T counts as the longest here, and is dropped there. The default of η is that of their notebook,
        as others report it.

    Args:
        rejection: η, the part of its own silences a unit may exceed; with 0 the threshold is its longest silence. 0.00125
            to 0.08.
        every: U, tasks (or steps) from one estimate of the thresholds to the next.
        longest: the first and the largest T, in examples.
        counted_in: "tasks", or "steps".
        initialise: re-initialises one layer; by default its own ``reset_parameters()``.
        optimizer_state: what the optimizer forgets of reset units, a policy of :mod:`swr.methods.tools.optimizer_state`.

    References:
        V. Farias, A. Jozefiak, 2025, "Self-Normalized Resets for Plasticity in Continual Learning", ICLR.
    """

    name = "self-normalized-resets"
    title = "self-normalized resets"
    tuning = along("rejection", 0.005, 0.01, 0.02, 0.04, 0.08)
    symbols: ClassVar[Mapping[str, str]] = {"rejection": "η", "every": "U", "longest": "T"}

    def __init__(
        self,
        model: nn.Module,
        example_inputs: Any = None,
        *,
        rejection: float = 0.08,
        every: int = 16,
        longest: int = 20_000,
        counted_in: CountedIn = "tasks",
        initialise: Initialiser = own_initialiser,
        optimizer_state: Policy = "clear_moments",
        seed: int = 0,
    ) -> None:
        self.rejection = fraction(rejection, "rejection η")
        self.every = whole(every, "every U")
        self.longest = whole(longest, "longest T")
        choice(counted_in, "counted_in", get_args(CountedIn))
        self.counted_in = counted_in
        super().__init__(model, example_inputs, initialise=initialise, optimizer_state=optimizer_state, seed=seed)
        device = model.get_parameter(self.units.layers[0].weight).device
        self.age = torch.zeros(self.total, dtype=torch.long, device=device)
        self.threshold = torch.full((self.total,), self.longest, device=device)
        self.histogram = torch.zeros(self.total, 0, dtype=torch.int32, device=device)
        self.width = 0
        """examples in a bin of the histogram; 0 before the first batch"""
        self._shortest = 0
        self._count = 0
        self._slack = 0  # examples for which, by the ages of the last time, no unit can come of age
        self._fired: dict[int, Tensor] = {}
        self._batch = 0

    def see(self, layer: int, activation: Tensor) -> None:
        """Who fires, in any of the passes before a step."""
        positive = activation if self.units.layers[layer].site.nonnegative else activation.relu()
        if activation.ndim > 1:
            positive = positive.sum(tuple(range(activation.ndim - 1)))  # many times faster than any()
        fires = positive > 0
        self._fired[layer] = self._fired[layer] | fires if layer in self._fired else fires
        self._batch += activation.shape[0] if layer == 0 else 0

    @torch.no_grad()
    def step(self) -> None:
        """Count silences, and reset units whose silence has lasted too long."""
        if self.blind(len(self._fired) < len(self.units.layers)):
            return
        fires = torch.cat([self._fired[layer] for layer in range(len(self.units.layers))])
        batch, self._fired, self._batch = self._batch, {}, 0
        if not self.width:
            self._begin(batch)
        if self.age.device != fires.device:
            self.age, self.threshold = self.age.to(fires.device), self.threshold.to(fires.device)
            self.histogram = self.histogram.to(fires.device)
        self._record(fires)
        self.age.add_(batch).masked_fill_(fires, 0)
        self._slack -= batch
        if self._slack <= 0:
            self._reset()
        if self.counted_in == "steps":
            self._estimate()

    def new_task(self, batches: Batches | None = None, loss_fn: LossFunction | None = None) -> None:
        """Every U tasks, new thresholds from the silences on record."""
        if self.counted_in == "tasks":
            self._estimate()

    def _begin(self, batch: int) -> None:
        self.width = max(batch, ceil(self.longest / BINS))
        self._shortest = min(batch, self.longest)
        self.histogram = self.histogram.new_zeros(self.total, self.longest // self.width + 2)

    def _record(self, ended: Tensor) -> None:
        """The silences of these units have come to an end; those of no length are not kept."""
        bins = (self.age + self.width - 1).div(self.width, rounding_mode="floor").clamp_(max=self.histogram.shape[1] - 1)
        self.histogram.scatter_add_(1, bins[:, None], (ended & (self.age > 0)).int()[:, None])

    def _reset(self) -> None:
        overdue = self.age >= self.threshold
        chosen = [(layer, part.nonzero().flatten()) for layer, part in enumerate(self.split(overdue))]
        chosen = [(layer, index) for layer, index in chosen if len(index)]
        if chosen:
            self._record(overdue)
            self.age.masked_fill_(overdue, 0)
            self.recycle(chosen)
        self._slack = int((self.threshold - self.age).min())

    def _estimate(self) -> None:
        self._count += 1
        if self._count % self.every or not self.width:
            return
        self.threshold = next_thresholds(
            self.histogram,
            self.threshold,
            rejection=self.rejection,
            width=self.width,
            shortest=self._shortest,
            longest=self.longest,
        )
        self.histogram.zero_()
        self._slack = 0

    def state(self) -> dict[str, Any]:
        """What has to be saved."""
        return {
            **super().state(),
            "age": self.age.clone(),
            "threshold": self.threshold.clone(),
            "histogram": self.histogram.clone(),
            "width": self.width,
            "shortest": self._shortest,
            "count": self._count,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """The reverse of :meth:`state`."""
        super().load_state(state)
        self.width, self._shortest, self._count = int(state["width"]), int(state["shortest"]), int(state["count"])
        self.histogram = self.histogram.new_zeros(state["histogram"].shape)
        kept = {"age": self.age, "threshold": self.threshold, "histogram": self.histogram}
        restore(kept, {name: state[name] for name in kept})
        self._slack, self._fired, self._batch = 0, {}, 0
