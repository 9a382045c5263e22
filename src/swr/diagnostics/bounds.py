"""How large SWR lets a weight grow: the limit B' of Theorem 2 and the slack to it.

    B' = √B / λ + ‖W_0‖,        B ≥ | ‖W_t‖² − ‖W^c_{t−1}‖² |  at every step t

W^c_{t−1} is the weight before the gradient update and W_t right after it, before the rescale. B is not the squared length of
the update but the change of the squared norm, as in the paper. In practice B is measured: it is the largest change over the
steps that were recorded. Fewer steps give a smaller B and a smaller limit. So norms that stay below a limit measured on some of
the steps also stay below the theorem's limit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from swr.diagnostics.layer_norms import anchors_of
from swr.errors import OptionError
from swr.rescaling import SoftWeightRescaling


def squared_changes(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """| ‖W_t‖² − ‖W^c_{t−1}‖² | of every weight in one gradient update; B is the largest of these over the steps.

    >>> squared_changes({"a": 3.0}, {"a": 5.0})
    {'a': 16.0}

    Args:
        before: the :func:`~swr.diagnostics.layer_norms` before the optimizer's step.
        after: the same norms after the optimizer's step, before the rescale.
    """
    return {name: abs(after[name] ** 2 - before[name] ** 2) for name in after if name in before}


def norm_limit(squared_change: float, coefficient: float, anchor: float, every: int = 1) -> float:
    """B', the norm that a weight under SWR does not exceed (Theorem 2).

        B' = √B / λ + ‖W_0‖

    With a rescale at every n-th step only, n updates add up before a rescale of strength 1 − (1 − λ)^n:

        B' = n √B / (1 − (1 − λ)^n) + ‖W_0‖

    >>> norm_limit(squared_change=0.25, coefficient=0.1, anchor=2.0)
    7.0

    Args:
        squared_change: B, the largest change of ‖W‖² in one gradient update.
        coefficient: λ; with 0 there is no limit.
        anchor: ‖W_0‖.
        every: n, as in :class:`swr.SoftWeightRescaling`.

    Returns:
        B', or infinity for λ = 0.

    Raises:
        OptionError: B is negative, λ is not between 0 and 1, or n is below 1.
    """
    if squared_change < 0 or not 0 <= coefficient <= 1 or every < 1:
        raise OptionError(
            "the limit needs B ≥ 0, λ between 0 and 1 and every ≥ 1, "
            f"found B {squared_change!r}, λ {coefficient!r}, every {every!r}."
        )
    if coefficient == 0:
        return math.inf
    strength = coefficient if every == 1 else 1 - (1 - coefficient) ** every
    return every * math.sqrt(squared_change) / strength + anchor


def norm_limits(rescaler: SoftWeightRescaling, squared_changes: Mapping[str, float]) -> dict[str, float]:
    """B' of every weight that Theorem 2 covers: the free weights of the plan that have an anchor.

    Coupled weights get the nearest scaler that their network allows instead of their own, and held weights get none: no limit
    is claimed for them. With ``on_lr_decay="follow"``, the current λ is used, which is the smallest so far if the learning rate
    only fell. Under a budget (``growth=ρ``) the limit is √B + ρ n_l.

    >>> from swr.diagnostics import layer_norms
    >>> rescaler = SoftWeightRescaling(model, x, coefficient=0.1)
    >>> limits = norm_limits(rescaler, {"0.weight": 0.25, "3.weight": 0.25})
    >>> math.isclose(limits["0.weight"], 5.0 + layer_norms(model)["0.weight"])
    True

    Args:
        rescaler: the rescaler, for its plan, coefficients and anchors.
        squared_changes: B by weight, as measured so far.
    """
    free, every, coefficients = set(rescaler.plan.free), rescaler.every, rescaler.coefficients()
    return {
        name: norm_limit(squared_changes[name], coefficients[name], rescaler.aim.reach * anchor, every)
        for name, anchor in anchors_of(rescaler).items()
        if name in free and name in squared_changes
    }


def slack(limits: Mapping[str, float], norms: Mapping[str, float]) -> dict[str, float]:
    """B' − ‖W_t‖: the distance to the limit; a negative value would contradict Theorem 2.

    >>> slack({"a": 7.0}, {"a": 2.5, "b": 1.0})
    {'a': 4.5}
    """
    return {name: limit - norms[name] for name, limit in limits.items() if name in norms}
