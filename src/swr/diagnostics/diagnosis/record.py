"""The result of a diagnosis: a sentence, the numbers behind it, as text, JSON or a page."""

from __future__ import annotations

import dataclasses
import json
import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import Any

from swr.diagnostics.diagnosis.advice import GROWN, SILENT, Advice, closes, culprit, more_silent, percent
from swr.diagnostics.diagnosis.intervals import interval
from swr.diagnostics.diagnosis.layer_table import Layer
from swr.diagnostics.diagnosis.new_task import Task
from swr.diagnostics.diagnosis.trial import Curve
from swr.diagnostics.diagnosis.verdict import Comparison, Verdict

WIDTH = 80
BINS = 50
BARS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class Point:
    """The loss at one time, over the pairs.

    Attributes:
        step: the last step of those that were averaged.
        mean: the mean loss.
        low: the lower end of its 95 % interval.
        high: the upper end.
    """

    step: int
    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Diagnosis:
    """Whether a network has lost plasticity, where, and what to try; ``print`` it, or write :meth:`to_html` to a file.

    Attributes:
        verdict: ``"none"``, ``"some"``, ``"lost"`` or ``"unclear"``; see :class:`~.comparison.Comparison`.
        sentence: the answer in words.
        targets: what the task was: the batches as given, relabelled or shuffled.
        steps: how long each network trained.
        examined: the number of the model's parameters.
        batches: the number of batches of the task.
        unit: of the loss, ``"nats"`` for cross-entropy, otherwise empty.
        comparison: all curves, results and intervals.
        layers: one row per layer.
        perturbed: the share of the gap that shrink and perturb closed, if it was tried.
        curvature: the largest eigenvalue of the Hessian at the start, of the trained and of a fresh network.
        trained: the trained network's loss over time.
        fresh: the fresh networks' loss over time.
        advice: what to try.
        notes: what else to know about this measurement.
    """

    verdict: Verdict
    sentence: str
    targets: Task
    steps: int
    examined: int
    batches: int
    unit: str
    comparison: Comparison
    layers: tuple[Layer, ...]
    perturbed: float | None
    curvature: tuple[float, float] | None
    trained: tuple[Point, ...]
    fresh: tuple[Point, ...]
    advice: tuple[Advice, ...]
    notes: tuple[str, ...]

    def __str__(self) -> str:
        parts = [_fill(self.sentence), self._chart(), self._rates(), self.layer_text()]
        parts += ["What to try:", "\n".join(self._advice())]
        parts += [_fill(f"Note: {note}.") for note in self.notes]
        return "\n\n".join(parts)

    def to_json(self) -> str:
        """Everything as JSON; numbers that are not finite are null."""
        return json.dumps(_plain(dataclasses.asdict(self)), indent=1, allow_nan=False)

    def to_html(self) -> str:
        """A page that needs nothing else: it opens from disk."""
        from swr.diagnostics.diagnosis.webpage import page  # it needs this module

        return page(self)

    def layer_rows(self) -> list[list[str]]:
        """The table of layers as text, its header first."""
        header = ["layer", "norm", "silent", "copies", "rank", "gradient", "update", "if reset"]
        return [header, *(_row(layer) for layer in self.layers)]

    def layer_text(self) -> str:
        """The table of layers with its explanation, 80 columns wide."""
        rows = self.layer_rows()
        longest = WIDTH - 2 * 7 - sum(max(len(row[i]) for row in rows) for i in range(1, 8))
        rows = [[row[0] if len(row[0]) <= longest else "…" + row[0][-longest + 1 :], *row[1:]] for row in rows]
        legend = [f"{name:<9} {text}" for name, text in LEGEND.items()]
        return "\n".join([aligned(rows), "", *legend])

    def _chart(self) -> str:
        top = self.comparison.start * 1.1
        bottom = min((p.mean for p in (*self.trained, *self.fresh) if math.isfinite(p.mean)), default=0.0)
        lines = [
            f"{name:<8}{_bars(curve, bottom, top)}  {number(curve[0].mean)} → {number(curve[-1].mean)}"
            for name, curve in (("trained", self.trained), ("fresh", self.fresh))
        ]
        return "\n".join([f"loss over {self.steps} steps", *lines])

    def _rates(self) -> str:
        rows = [["learning rate", "trained", "fresh"]]
        for at in self.comparison.rates:
            marks = [" *" if at.lr == best else "" for best in (self.comparison.lr_trained, self.comparison.lr_fresh)]
            rows.append([f"{at.lr:g}", number(at.trained) + marks[0], number(at.fresh) + marks[1]])
        lines = [aligned(rows), "", f"mean loss of the last tenth of the steps, {self.comparison.gap.n} pairs; * is compared"]
        if self.curvature is not None:
            ours, other = self.curvature
            lines.append(f"curvature at the start: trained {ours:.3g}, fresh {other:.3g}")
        return "\n".join(lines)

    def _advice(self) -> list[str]:
        lines = []
        for one in self.advice:
            lines.append(_fill(f"- {one.what}: {one.why}", indent="  "))
            lines += [textwrap.indent(one.code, "    ")] if one.code else []
        return lines


LEGEND = {
    "norm": "times a fresh network's",
    "silent": "units at or below 2.5 % of their layer's mean (fresh networks)",
    "copies": "units whose correlation with another one is 0.95 or more",
    "rank": "effective rank of the activations",
    "gradient": "its norm before the first step, times a fresh network's",
    "update": "‖ΔW‖ / ‖W‖ of a step, times a fresh network's",
    "if reset": "how much of the gap closes when this layer alone is re-initialised",
}
"""what the columns of the table of layers mean"""


def sentence(found: Comparison, layers: Sequence[Layer], steps: int, targets: Task, nats: bool) -> str:
    """The answer in words."""
    task = {"given": "the given batches", "relabelled": "relabelled classes", "shuffled": "shuffled targets"}[targets]
    begin = f"after {steps} steps on {task} the trained network"
    if not found.learned:
        return f"{begin} cannot be judged: fresh networks did not learn this task either; try more steps or other batches"
    unit = " nats" if nats else " in loss"
    gap, missing = found.gap, found.missing
    if not math.isfinite(gap.mean):
        return f"{begin} has diverged at every learning rate, where fresh networks learn: it has lost plasticity"
    size = f"{measured(abs(gap.mean), gap.half)}{unit}"
    if missing.high < 0:
        first = f"{begin} is {size} ahead of a fresh one"
    elif found.verdict == "none" or (found.verdict == "some" and not found.behind):
        first = f"{begin} is level with a fresh one ({measured(gap.mean, gap.half)}{unit})"
    else:
        first = f"{begin} is {size} {'behind' if gap.mean >= 0 else 'ahead of'} a fresh one"
        if gap.mean > 0:
            first += f", {percent(missing.mean)} of what a fresh one learns"
    if found.late and found.verdict in ("some", "lost"):
        times = f"{math.exp(found.slowdown.mean):.1f}"
        first += f", and needs {'' if found.arrived else 'more than '}{times} times the steps"
    verdicts = {
        "none": "it has lost no plasticity",
        "some": "it has lost some plasticity",
        "lost": "it has lost plasticity",
        "unclear": f"{gap.n} pairs cannot tell whether that is more than luck",
    }
    parts = [f"{first}: {verdicts[found.verdict]}"]
    if found.verdict in ("some", "lost"):
        parts += _where(layers)
    return "; ".join(parts)


def _where(layers: Sequence[Layer]) -> list[str]:
    """The layers that stand out: what a reset recovers, growth, silence."""
    parts = []
    if (worst := culprit(layers)) is not None:
        parts.append(closes(worst))
    grown = max(layers, key=lambda one: one.norm or 0.0, default=None)
    if grown is not None and grown.norm is not None and grown.norm >= GROWN:
        parts.append(f"layer {grown.name} grew {grown.norm:.1f}-fold")
    silent = max(layers, key=more_silent, default=None)
    if silent is not None and silent.units is not None and more_silent(silent) >= SILENT:
        parts.append(f"{percent(silent.units.silent)} of the units of layer {silent.name} are silent")
    return parts


def points(curves: Sequence[Curve]) -> tuple[Point, ...]:
    """Curves averaged over at most 50 stretches of steps, and then over pairs."""
    steps = len(curves[0].losses)
    bins = min(BINS, steps)
    edges = [steps * i // bins for i in range(bins + 1)]
    found = []
    for start, end in pairwise(edges):
        each = interval([fmean(curve.losses[start:end]) for curve in curves])
        found.append(Point(end, each.mean, each.low, each.high))
    return tuple(found)


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """A text table: the first column on the left, numbers on the right, a line below the first row."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join([row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))])
        for row in rows
    ]
    return "\n".join([lines[0], "─" * len(lines[0]), *lines[1:]])


def number(value: float) -> str:
    """A loss with the digits that matter.

    >>> number(0.3141), number(12.345), number(0.00123)
    ('0.31', '12.3', '0.0012')
    """
    if not math.isfinite(value):
        return "diverged"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}" if abs(value) >= 0.1 else f"{value:.2g}"


def measured(mean: float, half: float) -> str:
    """A mean with its interval, to the digits that the interval leaves.

    >>> measured(0.3141, 0.0432), measured(-0.0012, 0.0006)
    ('0.31 ± 0.04', '-0.0012 ± 0.0006')
    """
    digits = min(max(-math.floor(math.log10(half)), 2), 6) if 0 < half < math.inf else 2
    return f"{mean:.{digits}f} ± {half:.{digits}f}"


def _fill(text: str, indent: str = "") -> str:
    """Lines of at most 80 characters; a number and its % stay together."""
    text = text.replace(" %", "\0%")
    return textwrap.fill(text, WIDTH, subsequent_indent=indent, break_on_hyphens=False).replace("\0%", " %")


def _row(layer: Layer) -> list[str]:
    units, other = layer.units, layer.fresh_units
    cells = ["–", "–", "–"]
    if units and other:
        cells = [
            f"{percent(units.silent)} ({100 * other.silent:.0f})",
            f"{percent(units.duplicate)} ({100 * other.duplicate:.0f})",
            f"{units.rank:.0f} ({other.rank:.0f})",
        ]
    ratios = [f"×{value:.2g}" if value is not None else "–" for value in (layer.gradient, layer.update)]
    norm = f"×{layer.norm:.2g}" if layer.norm is not None else "–"
    return [layer.name, norm, *cells, *ratios, percent(layer.recovers) if layer.recovers is not None else "–"]


def _bars(curve: Sequence[Point], bottom: float, top: float) -> str:
    span = max(top - bottom, 1e-12)
    heights = [min(max((p.mean - bottom) / span, 0.0), 1.0) if math.isfinite(p.mean) else 1.0 for p in curve]
    return "".join(BARS[round(height * (len(BARS) - 1))] for height in heights)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
