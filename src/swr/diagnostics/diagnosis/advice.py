"""What to try, each with its reason and its line of code: first what was measured to help, then what the layers suggest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from swr.diagnostics.diagnosis.layer_table import Layer
from swr.diagnostics.diagnosis.verdict import Verdict

PERTURB = 0.8
"""the share of a fresh network in the shrink and perturb that is tried"""
ENOUGH = 0.8
"""a reset that closes this share of the gap is advised on its own"""
HELPS = 0.3
"""what closes less of the gap is not mentioned"""
SILENT = 0.1
"""as many more silent units than in a fresh network are worth recycling"""
GROWN = 2.0
"""norms that grew this much are worth bounding"""


@dataclass(frozen=True)
class Advice:
    """One thing to try.

    Attributes:
        what: its name.
        why: what was measured that speaks for it.
        code: the lines to add, where ``x`` is a batch of inputs; empty if there is nothing to do.
    """

    what: str
    why: str
    code: str = ""


def advise(verdict: Verdict, layers: Sequence[Layer], perturbed: float | None) -> tuple[Advice, ...]:
    """What to try.

    Args:
        verdict: of the comparison.
        layers: with what re-initialising each recovers, if that was tried.
        perturbed: the share of the gap that shrink and perturb closed, if it was tried.
    """
    if verdict == "none":
        return (Advice("nothing", "on this task the network learns as a fresh one does"),)
    if verdict == "unclear":
        return (Advice("measure again", "with more pairs (seeds=20), more steps (steps=2000) or other learning rates"),)
    found = []
    layer = culprit(layers)
    if layer is not None and (layer.recovers or 0.0) >= ENOUGH:
        name = "head reset" if layer is layers[-1] else f"reset of layer {layer.name}"
        owner = layer.weight.rpartition(".")[0]
        code = f"from swr.methods import HeadReset\nHeadReset(model, layers=[{owner!r}]).new_task()"
        found.append(Advice(name, closes(layer), code))
    if perturbed is not None and perturbed >= HELPS:
        share = "the whole gap" if perturbed >= 0.995 else f"{percent(perturbed)} of the gap"
        why = f"shrinking and mixing in {percent(PERTURB)} of a fresh network closes {share}"
        mix = f"retain={1 - PERTURB:.1f}, noise={PERTURB}"
        code = f"from swr.methods import ShrinkPerturbFresh\nShrinkPerturbFresh(model, {mix}).new_task()"
        found.append(Advice("shrink and perturb", why, code))
    if silent := [layer for layer in layers if more_silent(layer) >= SILENT]:
        worst = max(silent, key=more_silent)
        share = percent(worst.units.silent if worst.units else 0.0)
        why = f"{share} of the units of layer {worst.name} are silent"
        found.append(Advice("ReDo", why, "from swr.methods import ReDo\nReDo(model, x).attach(optimizer)"))
    if grown := [layer for layer in layers if layer.norm is not None and layer.norm >= GROWN]:
        worst = max(grown, key=lambda one: one.norm or 0.0)
        why = (
            f"layer {worst.name} has grown {worst.norm:.1f}-fold; this keeps norms bounded from the start of the next training"
        )
        found.append(Advice("SWR", why, "import swr\nswr.SoftWeightRescaling(model, x).attach(optimizer)"))
    if not found or (perturbed is not None and perturbed < ENOUGH and not any("reset" in one.what for one in found)):
        code = "from swr.methods import FullReset\nFullReset(model).new_task()"
        found.append(Advice("full reset", "a fresh network learns this task better", code))
    return tuple(found)


def culprit(layers: Sequence[Layer]) -> Layer | None:
    """The layer whose re-initialisation closes the gap: the last one if it closes most of it, else the one that closes most.

    The last layer comes first because resetting it keeps all features.
    """
    tried = [layer for layer in layers if layer.recovers is not None and layer.recovers >= HELPS]
    if tried and tried[-1] is layers[-1] and (tried[-1].recovers or 0.0) >= ENOUGH:
        return tried[-1]
    return max(tried, key=lambda one: one.recovers or 0.0, default=None)


def closes(layer: Layer) -> str:
    """What re-initialising a layer does, in words."""
    recovers = layer.recovers or 0.0
    share = "the whole gap" if recovers >= 0.995 else f"{percent(recovers)} of the gap"
    return f"re-initialising layer {layer.name} alone closes {share}"


def more_silent(layer: Layer) -> float:
    """By how much the fraction of silent units is above a fresh network's."""
    return layer.units.silent - layer.fresh_units.silent if layer.units and layer.fresh_units else 0.0


def percent(share: float) -> str:
    """A share in per cent.

    >>> percent(0.876)
    '88 %'
    """
    return f"{100 * share:.0f} %"
