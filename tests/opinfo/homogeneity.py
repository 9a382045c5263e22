"""In which directions the scales of an operator's inputs can really move, found numerically and without any rule.

With s = exp θ, the output moves by J θ to first order and stays proportional to itself where J θ = c f for some number c.
The null space of [J, −f] is then tried with factors far from one: what is proportional only nearby (rounding, a clip that
is not reached) does not count.
"""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

from .judge import Scaled, is_scaled

STEP = 1e-6  # of central differences
NOISE = 1e-6  # relative singular values below are zero
NEAR = 1e-7  # relative deviation from proportional
FACTORS = (0.4, -0.9, 2.5, -3.0)  # logarithms


def admissible(model: Scaled) -> Tensor:
    """An orthonormal basis, one direction a row, of the log-scales that keep the outputs up to one constant."""
    n = len(model.s)
    guess = null_space(model)
    generator = torch.Generator().manual_seed(0)
    mixed = [torch.randn(len(guess), generator=generator, dtype=torch.float64) @ guess for _ in range(2)]
    if len(guess) and all(passes(model, direction / direction.norm()) for direction in mixed):
        return guess
    candidates = itertools.product((0, 1, -1), repeat=n) if n <= 4 else torch.cat([torch.eye(n), torch.ones(1, n)]).tolist()
    found = [v for v in (torch.tensor(c, dtype=torch.float64) for c in candidates) if v.any() and passes(model, v)]
    if not found:
        return torch.zeros(0, n, dtype=torch.float64)
    _, sizes, basis = torch.linalg.svd(torch.stack(found), full_matrices=False)
    return basis[sizes > NOISE * sizes[0]]


def null_space(model: Scaled) -> Tensor:
    """Of [J, −f], over the scales."""
    n = len(model.s)
    zero = torch.zeros(n, dtype=torch.float64)
    columns = [-flat(model.outputs(zero))]
    for i in range(n):
        step = zero.clone()
        step[i] = STEP
        columns.append((flat(model.outputs(step)) - flat(model.outputs(-step))) / (2 * STEP))
    matrix = torch.stack(columns, 1)
    matrix = matrix[matrix.isfinite().all(1)]
    _, singular, basis = torch.linalg.svd(torch.cat([matrix, torch.zeros(n + 1, n + 1, dtype=torch.float64)]))
    null = basis[singular <= NOISE * max(float(singular[0]), 1e-30)][:, 1:]
    _, sizes, directions = torch.linalg.svd(null, full_matrices=False)
    return directions[sizes > 1e-3]


def passes(model: Scaled, direction: Tensor) -> bool:
    """Whether the outputs stay proportional along a direction, far from where they are too."""
    before = model.outputs(torch.zeros(len(model.s)))
    return all(proportional(before, model.outputs(factor * direction)) for factor in FACTORS)


def proportional(before: list[Tensor], after: list[Tensor]) -> bool:
    """Floating outputs by one positive constant, the others equal."""
    if any(b.shape != a.shape for b, a in zip(before, after, strict=True)):
        return False
    if not all(torch.equal(b, a) for b, a in zip(before, after, strict=True) if not is_scaled(b)):
        return False
    old, new = flat(before), flat(after)
    finite = old.isfinite() & new.isfinite()
    if not bool((finite | (old == new) | (old.isnan() & new.isnan())).all()):
        return False
    old, new = old[finite], new[finite]
    size = float(old @ old)
    constant = float(old @ new) / size if size > 0 else 1.0
    return constant > 0 and bool((new - constant * old).abs().max() <= NEAR * constant * old.abs().max()) if len(old) else True


def flat(outputs: list[Tensor]) -> Tensor:
    parts = [torch.view_as_real(out.resolve_conj()) if out.is_complex() else out for out in outputs if is_scaled(out)]
    return torch.cat([part.flatten().double() for part in parts]) if parts else torch.zeros(0, dtype=torch.float64)
