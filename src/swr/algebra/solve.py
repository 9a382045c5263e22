"""Solve A θ = 0 for the followers, and project onto the solutions for the weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor

from swr.algebra.forms import Equation, Form

Kind = Literal["free", "coupled", "held"]

_TOLERANCE = 1e-9  # of singular values and of matrix entries; forms have small rational coefficients


@dataclass(frozen=True)
class Solution:
    """θ = P t over the weights, and every other parameter as a form in them.

    Attributes:
        weights: names, in the order of the columns.
        projection: P, float64, symmetric; the identity for a feed-forward network.
        follows: the form of each follower in the weights.
        constraints: the equations between weights alone.
    """

    weights: tuple[str, ...]
    projection: Tensor
    follows: dict[str, Form]
    constraints: tuple[Equation, ...]

    def in_weights(self, form: Form) -> Form:
        """The same form with every follower expressed through the weights."""
        alone = next(iter(form.terms)) if len(form) == 1 else None
        if alone in self.follows and form.terms[alone] == 1:  # most forms are a parameter's own
            return self.follows[alone]
        return substitute(form, self.follows)

    def rows(self, forms: Sequence[Form]) -> Tensor:
        """The rows r with form(θ) = r · t, one per form, float64."""
        index = {name: i for i, name in enumerate(self.weights)}
        terms = [self.in_weights(form).terms for form in forms]
        row = torch.repeat_interleave(torch.tensor([len(each) for each in terms]))
        column = torch.tensor([index[name] for each in terms for name in each], dtype=torch.long)
        coefficients = torch.zeros(len(forms), len(self.weights), dtype=torch.float64)
        coefficients[row, column] = torch.tensor([k for each in terms for k in each.values()], dtype=torch.float64)
        return _snap(coefficients @ self.projection)

    def row(self, form: Form) -> Tensor:
        """The row r with form(θ) = r · t."""
        return self.rows([form])[0]

    @cached_property
    def kinds(self) -> Mapping[str, Kind]:
        """The kind of each weight: free, coupled or held."""
        filled = self.projection.count_nonzero(1).tolist()
        alone = (self.projection.diagonal() == 1).tolist()
        return {
            name: "held" if n == 0 else "free" if n == 1 and own else "coupled"
            for name, n, own in zip(self.weights, filled, alone, strict=True)
        }

    def partners(self, weight: str) -> tuple[str, ...]:
        """The other weights on which this one's scaler depends."""
        row = self.projection[self.weights.index(weight)]
        return tuple(n for n, k in zip(self.weights, row.tolist(), strict=True) if k != 0 and n != weight)

    def restriction(self, weight: str) -> Equation:
        """Why a weight is coupled or held: what the operator that restricts it demands.

        Of a coupled weight it is its shortest constraint. A held weight may take part only in additions that
        pass on what an operator demands elsewhere: that operator is looked for, from weight to held weight.
        """
        about = self._about[weight]
        if self.kinds[weight] != "held":
            return min(about, key=_length)
        seen, level = {weight}, [weight]
        while level:
            found = [e for name in level for e in self._about[name] if e.fixes or len(e.form) == 1]
            if found:
                return min(found, key=_length)
            near = dict.fromkeys(n for name in level for e in self._about[name] for n in e.form.terms if n not in seen)
            level = [name for name in near if self.kinds[name] == "held"]
            seen.update(near)
        return min(about, key=_length)

    @cached_property
    def _about(self) -> Mapping[str, list[Equation]]:
        """The constraints on each weight."""
        about: dict[str, list[Equation]] = {name: [] for name in self.weights}
        for equation in self.constraints:
            for name in equation.form.terms:
                about[name].append(equation)
        return about


def _length(equation: Equation) -> tuple[int, bool]:
    """Few weights first; then what one operator demands before what two scales share."""
    return len(equation.form), not equation.fixes


def solve(weights: Sequence[str], followers: Sequence[str], equations: Sequence[Equation]) -> Solution:
    """Express the followers through the weights, then project.

    With B the remaining equations between weights alone, and V an orthonormal basis of the rows of B, P = I − V Vᵀ. A follower
    that no equation determines keeps its scale.

    Args:
        weights: names, in the order of the columns of P.
        followers: names of the other parameters.
        equations: the forms that must be zero.
    """
    free = set(followers)
    follows: dict[str, Form] = {}
    left: list[Equation] = []
    for equation in equations:
        form = substitute(equation.form, follows)
        pivot = max((n for n, _ in form if n in free), key=lambda n: abs(form.terms[n]), default=None)
        if pivot is None:
            left.append(equation)
            continue
        solved = {pivot: Form({n: -k / form.terms[pivot] for n, k in form if n != pivot})}
        follows = {n: substitute(f, solved) if pivot in f.terms else f for n, f in follows.items()} | solved
        free.discard(pivot)
    undetermined = {name: Form() for name in free}
    follows = {name: substitute(form, undetermined) for name, form in follows.items()} | undetermined
    constraints = [replace(e, form=substitute(e.form, follows)) for e in left]
    constraints = [e for e in constraints if not e.form.is_zero]
    return Solution(tuple(weights), _projection(weights, constraints), follows, tuple(constraints))


def _projection(weights: Sequence[str], constraints: Sequence[Equation]) -> Tensor:
    identity = torch.eye(len(weights), dtype=torch.float64)
    if not constraints:
        return identity
    index = {name: i for i, name in enumerate(weights)}
    rows = torch.zeros(len(constraints), len(weights), dtype=torch.float64)
    for i, equation in enumerate(constraints):
        for name, k in equation.form:
            rows[i, index[name]] = k
    rows = torch.unique(rows / rows.norm(dim=1, keepdim=True), dim=0)
    _, singular, basis = torch.linalg.svd(rows, full_matrices=False)
    basis = basis[singular > _TOLERANCE * singular[0]]
    return _snap(identity - basis.T @ basis)


def substitute(form: Form, known: Mapping[str, Form]) -> Form:
    """Replace each name by its form, where one is known; terms that cancel up to rounding are dropped."""
    if not any(name in known for name, _ in form):
        return form
    total = Form()
    for name, k in form:
        total = total + (known[name] * k if name in known else Form({name: k}))
    return Form({name: k for name, k in total if abs(k) > _TOLERANCE})


def _snap(tensor: Tensor) -> Tensor:
    """Round entries that are near an integer: rounding errors of the SVD must not turn a free weight into a coupled one."""
    nearest = tensor.round()
    return torch.where((tensor - nearest).abs() < _TOLERANCE, nearest, tensor)
