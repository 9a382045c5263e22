"""A plan as a text table: every parameter, how it may be scaled, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from swr.algebra.forms import Form

if TYPE_CHECKING:
    from swr.algebra.plan import ScalePlan

_LISTED = 3  # weights named in one cell; the rest are counted


def table(plan: ScalePlan, notes: Mapping[str, str] | None = None) -> str:
    """One line per parameter and running statistic, the output last.

    Args:
        plan: the plan.
        notes: a remark per parameter, shown in an extra column.
    """
    head = ["parameter", "shape", "role", "scaled by", "why"]
    rows = [[name, _shape(plan.shapes[name]), *_parameter(plan, name)] for name in plan.shapes]
    rows += [[name, "", "follows", _factor(form, plan), "running statistic"] for name, form in plan.statistics.items()]
    if notes is not None:
        head.append("note")
        rows = [[*row, notes.get(row[0], "")] for row in rows]
    counts = ", ".join(
        f"{len(names)} {kind}"
        for kind, names in (
            ("free", plan.free),
            ("coupled", plan.coupled),
            ("held", plan.held),
            ("followers", plan.followers),
            ("frozen", plan.frozen),
            ("unused", plan.unused),
        )
        if names
    )
    constant = _factor(plan.output, plan)
    return f"{_aligned([head, *rows])}\n\nf(x) is multiplied by C = {constant}\n{counts}"


def _parameter(plan: ScalePlan, name: str) -> list[str]:
    if name in plan.frozen:
        return ["frozen", "1", "requires_grad=False: a constant"]
    if name in plan.unused:
        return ["unused", "1", "the traced computation never reads it"]
    if name in plan.followers:
        return ["follows", _factor(Form.of(name), plan), "only ever added"]
    kind = plan.kinds[name]
    if kind == "free":
        return ["free", "its own scaler", ""]
    why = _reason(plan, name)
    if kind == "held":
        return ["held", "1", why]
    return ["coupled", f"with {_listed(plan.solution.partners(name))}", why]


def _reason(plan: ScalePlan, weight: str) -> str:
    """The reason of the shortest constraint on the weight."""
    about = [e for e in plan.solution.constraints if weight in e.form.terms]
    return min(about, key=lambda e: len(e.form)).reason


def _factor(form: Form, plan: ScalePlan) -> str:
    """exp(form) as a product of the weights' scalers, e.g. c(fc1.weight)·c(fc2.weight)."""
    row = plan.solution.row(form)
    raw = plan.solution.in_weights(form)
    terms = [(name, k) for name, k in raw if plan.kinds[name] != "held"] if row.any() else []
    return (
        "·".join(f"c({n})" if k == 1 else f"c({n})^{k:g}" for n, k in terms[:_LISTED])
        + (f"·… ({len(terms)} weights)" if len(terms) > _LISTED else "")
        or "1"
    )


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more


def _shape(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape)) or "scalar"


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
