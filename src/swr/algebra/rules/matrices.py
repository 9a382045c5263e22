"""Linear algebra: inverses, systems of equations and decompositions.

A decomposition packed into one tensor (LU, LDL, Householder vectors) has parts of different degrees: no rule, it holds.
"""

from __future__ import annotations

from swr.algebra.flow import Flow
from swr.algebra.forms import ZERO, Scale, Value
from swr.algebra.rules.products import quotient
from swr.algebra.rules.rulebook import aten


@aten("linalg_inv")
def _inv(flow: Flow, A: Value) -> Scale:
    return flow.power(A, -1)


@aten("inverse linalg_tensorinv")
def _inverse(flow: Flow, self: Value) -> Scale:
    return flow.power(self, -1)


@aten("linalg_inv_ex")
def _inv_ex(flow: Flow, A: Value) -> tuple[Scale, Scale]:
    return flow.power(A, -1), ZERO


@aten("linalg_pinv pinverse")
def _pinv(flow: Flow, self: Value) -> Scale:
    """With the cut at a share of the largest singular value; a tensor that says where to cut is held."""
    return flow.power(self, -1)


@aten("linalg_pinv.atol_rtol_float")
def _pinv_atol(flow: Flow, self: Value, atol: float | None) -> Scale:
    return flow.power(self, -1) if not atol else flow.hold(self)


@aten("linalg_pinv.atol_rtol_tensor")
def _pinv_atol_tensor(flow: Flow, self: Value, atol: Value | None) -> Scale:
    return flow.power(self, -1) if atol is None else flow.hold(self, atol)


@aten("linalg_solve")
def _solve(flow: Flow, A: Value, B: Value) -> Scale:
    return quotient(flow, B, A)


@aten("linalg_solve_ex")
def _solve_ex(flow: Flow, A: Value, B: Value) -> tuple[Scale, Scale]:
    return quotient(flow, B, A), ZERO


@aten("linalg_tensorsolve")
def _tensorsolve(flow: Flow, self: Value, other: Value) -> Scale:
    return quotient(flow, other, self)


@aten("linalg_solve_triangular")
def _solve_triangular(flow: Flow, self: Value, B: Value, unitriangular: bool) -> Scale:
    if unitriangular:  # the diagonal counts as ones whatever stands there
        flow.hold(self)
        return B.form
    return quotient(flow, B, self)


@aten("triangular_solve")
def _triangular_solve(flow: Flow, self: Value, A: Value, unitriangular: bool) -> tuple[Scale, Scale]:
    return _solve_triangular(flow, A, self, unitriangular), A.form


@aten("lu_solve")
def _lu_solve(flow: Flow, self: Value) -> Scale:
    return self.form


@aten("linalg_lu_solve")
def _linalg_lu_solve(flow: Flow, B: Value) -> Scale:
    return B.form


@aten("linalg_ldl_solve")
def _ldl_solve(flow: Flow, B: Value) -> Scale:
    return B.form


@aten("linalg_det")
def _det(flow: Flow, A: Value) -> Scale:
    return flow.power(A, flow.shape_of("A")[-1])


@aten("cholesky linalg_cholesky")
def _cholesky(flow: Flow, self: Value) -> Scale:
    return flow.power(self, 0.5)


@aten("linalg_cholesky_ex")
def _cholesky_ex(flow: Flow, self: Value) -> tuple[Scale, Scale]:
    return flow.power(self, 0.5), ZERO


@aten("cholesky_solve")
def _cholesky_solve(flow: Flow, self: Value, input2: Value) -> Scale:
    return quotient(flow, self, Value(flow.power(input2, 2), input2.leaves, input2.pure))


@aten("cholesky_inverse")
def _cholesky_inverse(flow: Flow, self: Value) -> Scale:
    return flow.power(self, -2)


@aten("linalg_qr")
def _linalg_qr(flow: Flow, A: Value) -> tuple[Scale, Scale]:
    return ZERO, A.form


@aten("qr")
def _qr(flow: Flow, self: Value) -> tuple[Scale, Scale]:
    return ZERO, self.form


@aten("linalg_lu")
def _lu(flow: Flow, A: Value) -> tuple[Scale, Scale, Scale]:
    return ZERO, ZERO, A.form


@aten("linalg_svd")
def _linalg_svd(flow: Flow, A: Value) -> tuple[Scale, Scale, Scale]:
    return ZERO, A.form, ZERO


@aten("svd")
def _svd(flow: Flow, self: Value) -> tuple[Scale, Scale, Scale]:
    return ZERO, self.form, ZERO


@aten("linalg_eigh")
def _eigh(flow: Flow, self: Value) -> tuple[Scale, Scale]:
    return self.form, ZERO


@aten("linalg_matrix_power matrix_power")
def _matrix_power(flow: Flow, self: Value, n: int) -> Scale:
    return flow.power(self, n)
