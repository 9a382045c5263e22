"""Where the rules are kept: by operator, or by all overloads of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from swr.algebra.calling import Rule

R = TypeVar("R", bound=Rule)
RULES: dict[str, Rule] = {}


def rule(*operators: Any) -> Callable[[R], R]:
    """Teach the algebra an operator.

    The rule returns the form of the operator's output (its log-scale as a linear form; a tuple of forms where the outputs
    differ) and states demands through the flow: ``flow.same(...)`` for what is added, ``flow.product(...)`` for what is
    multiplied, ``flow.power(x, k)``, ``flow.hold(...)`` for what must not be scaled.

    >>> import torch, swr
    >>> @torch.library.custom_op("docs::twice", mutates_args=())
    ... def twice(x: torch.Tensor, eps: float = 0.0) -> torch.Tensor:
    ...     return 2 * x + eps
    >>> @swr.rule(torch.ops.docs.twice.default)
    ... def _(flow, x, eps):
    ...     return flow.same(x, eps)

    The parameters of a rule after the flow are matched with the operator's schema. If all of them are names of the schema,
    as here, each gets the argument of its name, the default where it was not given; ``**others`` gets the rest. Otherwise the
    arguments come in the schema's order, keyword-only ones by name. Tensors that a rule does not take are held. A rule that
    returns anything but forms raises :class:`swr.PlanError`.

    Args:
        operators: operators (``torch.ops.my.op.default``), all overloads of one (``torch.ops.my.op``), or their names.
    """

    def register(function: R) -> R:
        for operator in operators:
            RULES[str(operator)] = function
        return function

    return register


def lookup(target: Any) -> Rule | None:
    """The rule of an operator: of this overload, or of all its overloads."""
    found = RULES.get(str(target))
    return found if found is not None else RULES.get(str(getattr(target, "overloadpacket", "")))


def aten(names: str) -> Callable[[R], R]:
    """A rule for operators of PyTorch, listed by name."""
    return rule(*(f"aten.{name}" for name in names.split()))
