"""How a rule is called, and what it may return.

A rule takes the flow and the operator's arguments. If every parameter of it is a name of the operator's schema, it gets the
arguments of these names; otherwise it gets them in the schema's order. Tensors that it does not ask for are held, so that a
rule which overlooks an argument restricts and never breaks.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cache
from inspect import Parameter
from typing import TYPE_CHECKING, Any

from swr.algebra.forms import ANY, Form, Scale
from swr.algebra.walk import packet
from swr.errors import PlanError

if TYPE_CHECKING:
    from swr.algebra.flow import Flow

Rule = Callable[..., Any]


def call_rule(
    rule: Rule, flow: Flow, target: Any, arguments: Mapping[str, Any], outputs: int | None
) -> Scale | tuple[Scale, ...]:
    """Call a rule with the arguments of an operator, and refuse what is no form.

    Args:
        rule: of the operator.
        flow: its first argument.
        target: the operator.
        arguments: by the names of the schema and in its order, defaults included.
        outputs: how many tensors the operator returns, if it returns several.
    """
    positions, named, rest = _match(rule, target, tuple(arguments))
    result = rule(flow, *(arguments[name] for name in positions), **{name: arguments[name] for name in named})
    flow.hold_scaled(*(arguments[name] for name in rest))
    if isinstance(result, tuple) and outputs is not None and len(result) == outputs and all(map(_is_scale, result)):
        return result
    if _is_scale(result):
        return result  # type: ignore[no-any-return]
    wanted = "a form" if outputs is None else f"one form for all outputs, or a tuple of {outputs}"
    raise PlanError(
        f"{describe(rule)} for {packet(target)} returned {result!r}; a rule returns {wanted}: flow.same(...), "
        "flow.product(...), flow.power(...) or flow.hold(...). Is a return missing?"
    )


def describe(rule: Rule) -> str:
    """Which function a rule is, for messages."""
    return f"the rule {getattr(rule, '__qualname__', rule)!r} of the module {getattr(rule, '__module__', '?')}"


def _is_scale(result: Any) -> bool:
    return isinstance(result, Form) or result is ANY


@cache
def _match(rule: Rule, target: Any, names: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Names of the arguments to pass by position, by keyword, and not at all."""
    parameters = list(inspect.signature(rule).parameters.values())[1:]
    kinds = {parameter.kind for parameter in parameters}
    wanted = [p.name for p in parameters if p.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)]
    if Parameter.VAR_POSITIONAL not in kinds and Parameter.POSITIONAL_ONLY not in kinds and set(wanted) <= set(names):
        taken = names if Parameter.VAR_KEYWORD in kinds else tuple(wanted)
        return (), taken, tuple(name for name in names if name not in taken)
    schema = getattr(target, "_schema", None)
    keywords = {a.name for a in schema.arguments if a.kwarg_only} if schema is not None else set()
    ordered = [name for name in names if name not in keywords]
    places = [p for p in parameters if p.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)]
    required = sum(p.default is Parameter.empty for p in places)
    if required > len(ordered):
        raise PlanError(
            f"{describe(rule)} takes {required} arguments after the flow, but {packet(target)} has {len(ordered)}: "
            f"{', '.join(names)}."
        )
    if Parameter.VAR_POSITIONAL not in kinds:
        ordered = ordered[: len(places)]
    by_name = tuple(n for n in names if n in keywords and (Parameter.VAR_KEYWORD in kinds or n in wanted))
    return tuple(ordered), by_name, tuple(name for name in names if name not in ordered and name not in by_name)
