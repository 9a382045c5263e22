"""What a rescale aims at, from the options: a pull towards the anchors (Algorithm 1), or a budget for their growth.

    pull       c_l = (λ n_l + (1 − λ) ‖W_l‖) / ‖W_l‖        ``coefficient=λ``
    budget     c_l = min(1, ρ n_l / ‖W_l‖)                  ``growth=ρ``

The anchors n_l come from the norms that the weights have at the start: these norms themselves, or the balanced ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from swr.algebra.plan import ScalePlan
from swr.errors import OptionError
from swr.rescaling.balanced import balanced
from swr.rescaling.patterns import by_pattern, check_numbers

AnchorKind = Literal["balanced", "initial", "current"]

DEFAULT_GROWTH = 1.5
"""ρ where neither a budget nor a coefficient is given"""


@dataclass(frozen=True)
class Aim:
    """Where weights are pulled, and how strongly.

    Attributes:
        coefficient: λ, one or by pattern; None under a budget.
        growth: ρ; None without a budget.
        anchors: where n_l comes from, or n_l by pattern.
    """

    coefficient: float | Mapping[str, float] | None
    growth: float | None
    anchors: AnchorKind | Mapping[str, float]

    @classmethod
    def of(
        cls,
        coefficient: float | Mapping[str, float] | None,
        growth: float | None,
        anchors: AnchorKind | Mapping[str, float] | None,
    ) -> Aim:
        """The aim that these options ask for, each None if it was not given.

        >>> Aim.of(None, None, None)
        Aim(coefficient=None, growth=1.5, anchors='balanced')
        >>> Aim.of(1e-3, None, None)
        Aim(coefficient=0.001, growth=None, anchors='initial')
        """
        if coefficient is not None and growth is not None:
            raise OptionError(
                f"growth and coefficient are two ways to limit the norms, found growth={growth!r} and "
                f"coefficient={coefficient!r}: give growth=ρ (no layer's norm grows past ρ times its anchor) or coefficient=λ "
                "(the paper's soft pull)."
            )
        if coefficient is None and growth is None:
            growth = DEFAULT_GROWTH
        if growth is not None:
            finite = isinstance(growth, (int, float)) and not isinstance(growth, bool) and 0 < growth < math.inf
            if not finite:
                raise OptionError(f"growth ρ must be a positive number, such as {DEFAULT_GROWTH}, found {growth!r}.")
        else:
            check_numbers(coefficient, "coefficient λ", lambda n: 0 <= n <= 1, "a number between 0 and 1", '{"*": 1e-3}')
        if isinstance(anchors, Mapping):
            check_numbers(anchors, "anchors", lambda n: 0 < n < math.inf, "a positive norm", '{"*": 5.0}')
        elif anchors is not None and anchors not in get_args(AnchorKind):
            raise OptionError(
                f'anchors must be "balanced", "initial", "current" or a mapping from patterns to norms, found {anchors!r}.'
            )
        kind: AnchorKind | Mapping[str, float]
        kind = anchors if anchors is not None else "initial" if growth is None else "balanced"
        return cls(coefficient, growth, kind)

    @property
    def reach(self) -> float:
        """The norm that a rescale heads for, over the anchor: ρ, or 1."""
        return 1.0 if self.growth is None else float(self.growth)

    @property
    def at_the_first_step(self) -> bool:
        """Whether the anchors come from the norms at the first step, whatever was loaded since the rescaler was built."""
        return self.anchors == "current"

    def strengths(self, plan: ScalePlan, idle_patterns: Literal["refuse", "allow"]) -> dict[str, float]:
        """λ of every weight of the plan; 1 under a budget, where it acts only above."""
        if self.coefficient is None:
            return dict.fromkeys(plan.weights, 1.0)
        return by_pattern(self.coefficient, plan, "coefficient", idle_patterns)

    def check_anchors(self, plan: ScalePlan) -> None:
        """Raise :class:`~swr.OptionError` unless patterns of norms cover the weights of the plan, and match some each."""
        if isinstance(self.anchors, Mapping):
            by_pattern(self.anchors, plan, "anchors")

    def anchors_of(self, plan: ScalePlan, norms: Mapping[str, float]) -> dict[str, float]:
        """n_l of every weight in ``norms``; 0 for one that has none.

        Args:
            plan: of the network.
            norms: ‖W_l‖ at the start; 0 for a weight that starts at zero.
        """
        if isinstance(self.anchors, Mapping):
            given = by_pattern(self.anchors, plan, "anchors", "allow")
            return {name: given[name] for name in norms}
        return balanced(plan, norms) if self.anchors == "balanced" else dict(norms)

    def note(self, strength: float) -> str:
        """A weight's part in it, for tables."""
        return f"λ {strength:g}" if self.growth is None else f"ρ {self.growth:g}"

    def __str__(self) -> str:
        anchors = "given" if isinstance(self.anchors, Mapping) else self.anchors
        if self.growth is not None:
            return f"growth={self.growth:g}, {anchors} anchors"
        value = f"{self.coefficient:g}" if isinstance(self.coefficient, (int, float)) else "by pattern"
        return f"coefficient={value}, {anchors} anchors"
