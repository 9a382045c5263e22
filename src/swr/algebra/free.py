"""Every weight on its own: the demands of ``inhomogeneous="free"``, under which the function is not kept.

    W ← c_W W,   b ← c_W b   for the shift b of W's output,   running mean ← c_W ·,   running variance ← c_W² ·

An activation enters every operator that multiplies it by a parameter with form 0, so that a form says by which weights a tensor
was multiplied last, and not by how much it really changed. What meets in an addition or is not homogeneous demands nothing.
Equations are kept for what follows a weight, and for parameters that a non-homogeneous operator reads directly, such as
exp(temperature): these are no factors, and stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from swr.algebra.flow import Flow, forms_in, values_in
from swr.algebra.forms import ANY, ZERO, Equation, Form, Scale, Value
from swr.algebra.solve import solve


@dataclass
class FreeFlow(Flow):
    """The demands when each weight is scaled on its own.

    Attributes:
        multiplying: the weights, from an earlier walk; every other parameter follows.
    """

    multiplying: frozenset[str] = field(default=frozenset())

    def same(self, *values: Any) -> Scale:
        """Followers get the form of what they are added to; where tensors of several forms meet, none of them."""
        forms = list(dict.fromkeys(form for form in forms_in(values) if form is not ANY))
        following = [form for form in forms if not self.multiplying.issuperset(form.terms)]
        moving = [form for form in forms if form not in following]
        if not forms:
            return ANY
        common = moving[0] if len(moving) == 1 else ZERO if moving else following[0]
        for form in following:
            self.demand(form, common)
        return common

    def product(self, *values: Any) -> Scale:
        """The form of the parameters among the factors; without any, the sum of all forms."""
        total = super().product(*values)
        parameters = [value.form for value in values_in(values) if value.leaves]
        return total if total is ANY or not parameters else sum(parameters, ZERO)

    def hold(self, *values: Any) -> Form:
        """Only parameters that the operator reads directly are held."""
        return super().hold(*(value for value in values_in(values) if value.leaves))

    def follow(self, buffer: Value | None, form: Scale) -> None:
        """A statistic of two layers whose inputs have different forms stays."""
        name = "" if buffer is None or buffer.buffer is None else buffer.buffer
        if form is not ANY and self.statistics.get(name, form) != form:
            self.pin(name)
        super().follow(buffer, form)

    def pin(self, statistic: str) -> None:
        """A statistic that stays restricts no weight."""
        self.statistics[statistic] = ZERO

    def settle(self) -> None:
        """Drop the equations between weights; a follower that is asked to follow several of them stays."""
        followers = [name for name in self.seen if name not in self.multiplying]
        about = [e for e in self.equations if not self.multiplying.issuperset(e.form.terms)]
        kept = [e for e in self.equations if e.fixes and self.multiplying.issuperset(e.form.terms)]
        for names, equations in _connected(followers, about):
            weights = sorted(self.multiplying.intersection(n for e in equations for n in e.form.terms))
            torn = solve(weights, names, equations).constraints
            kept += [Equation(Form.of(name), "it follows no single weight") for name in names] if torn else equations
        self.equations = kept


def _connected(names: Iterable[str], equations: Sequence[Equation]) -> list[tuple[list[str], list[Equation]]]:
    """The names that share equations, with these equations."""
    group_of = {name: ([name], list[Equation]()) for name in names}
    for equation in equations:
        members, own = [], []
        for group in {id(group_of[n]): group_of[n] for n in equation.form.terms if n in group_of}.values():
            members += group[0]
            own += group[1]
        joined = members, [*own, equation]
        group_of |= dict.fromkeys(members, joined)
    return list({id(group): group for group in group_of.values()}.values())
