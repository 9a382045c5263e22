"""What a rescaler has to say to its user, in sentences."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from swr.algebra.plan import ScalePlan
from swr.rescaling.changes import Change

_LISTED = 3


def left_alone(plan: ScalePlan, pulled: Sequence[str], anchors: Mapping[str, float]) -> Iterator[str]:
    """Which weights are not pulled: where these are most of the network's entries, and where there is no anchor.

    Args:
        plan: of the network.
        pulled: the weights that can be scaled.
        anchors: n_l of these.
    """
    sizes = {name: math.prod(plan.shapes[name]) for name in plan.weights}
    movable, entries = sum(sizes[name] for name in pulled), sum(sizes.values())
    if not entries or 2 * movable < entries:
        share = f"{100 * movable / entries:.2g} %" if entries else "none"
        yield (
            f"only {len(pulled)} of {len(sizes)} weight tensors, {share} of the entries, can be scaled without changing the "
            'function; the others are left alone (describe() says why). inhomogeneous="pass" treats non-homogeneous '
            "activations (GELU, SiLU, tanh) as homogeneous, which is approximate, and may free more."
        )
    if without := [name for name, anchor in anchors.items() if not anchor > 0]:
        yield (
            f"{some(without)}: the norm was zero or not finite when the anchors were taken (LoRA's B starts at zero), so that "
            "there is no norm to pull towards; left alone until rebase() is called, but for what coupled weights ask."
        )


def jumped(norms: Mapping[str, float], anchors: Mapping[str, float], tolerance: float) -> str | None:
    """That the norms are no longer those the anchors were taken from, although no step was made; None if they are.

    Args:
        norms: ‖W_l‖ now.
        anchors: ‖W_l‖ then.
        tolerance: relative.
    """
    off = {
        name: math.inf if not norms[name] > 0 else abs(math.log(norms[name] / anchor))
        for name, anchor in anchors.items()
        if anchor > 0 and not abs(norms[name] - anchor) <= tolerance * anchor
    }
    if not off:
        return None
    worst = max(off, key=off.__getitem__)
    return (
        f"the weights have changed since the rescaler was built, before its first step: the norm of {worst} was "
        f"{anchors[worst]:.4g} and is {norms[worst]:.4g} now. If a checkpoint was loaded, the anchors are still the norms of "
        "the initialisation: build the rescaler after loading, or call rebase(). To resume a run, load the rescaler's own "
        "state as well."
    )


def changed(changes: Sequence[Change], kept: int, new: Sequence[str]) -> str:
    """That a model was analysed again.

    Args:
        changes: why.
        kept: how many weights keep their anchors.
        new: the weights that got one.
    """
    anchors = f", {some(new)} got the present norm as anchor." if new else "."
    return (
        f"the model has changed since it was analysed ({some(map(str, changes))}); it was analysed again: {kept} weights keep "
        f"their anchors{anchors}"
    )


def some(names: Iterable[str]) -> str:
    """The first few names, and how many more there are.

    >>> some(["a", "b", "c", "d", "e"])
    'a, b, c and 2 more'
    """
    listed = list(names)
    more = f" and {len(listed) - _LISTED} more" if len(listed) > _LISTED else ""
    return ", ".join(listed[:_LISTED]) + more
