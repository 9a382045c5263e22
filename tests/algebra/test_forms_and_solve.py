"""Arithmetic of forms, and the projection as the least-squares answer."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from swr.algebra.forms import Equation, Form
from swr.algebra.solve import solve

names = st.sampled_from("abcdef")
forms = st.dictionaries(names, st.integers(-2, 2).map(float), max_size=4).map(Form)


@given(forms, forms, forms)
@settings(derandomize=True, deadline=None)
def test_forms_add_and_cancel_like_vectors(x, y, z):
    assert (x + y) + z == x + (y + z)
    assert x + y == y + x
    assert (x - x).is_zero
    assert 2.0 * (x + y) == 2.0 * x + 2.0 * y
    assert hash(x + y) == hash(y + x)


@given(st.lists(forms, max_size=5))
@settings(derandomize=True, deadline=None)
def test_the_solution_is_admissible_and_the_nearest(equations):
    """Against numpy-style least squares: null space of A, then the closest point over the weights."""
    weights, followers = ("a", "b", "c", "d"), ("e", "f")
    solution = solve(weights, followers, [Equation(f, "") for f in equations])
    everything = weights + followers
    matrix = torch.tensor([[f.terms.get(n, 0.0) for n in everything] for f in equations], dtype=torch.float64).reshape(-1, 6)
    rows = torch.stack([solution.row(Form.of(n)) for n in everything])
    torch.testing.assert_close(matrix @ rows, torch.zeros(len(equations), 4, dtype=torch.float64), atol=1e-9, rtol=0)

    _, singular, basis = torch.linalg.svd(matrix if len(matrix) else torch.zeros(1, 6, dtype=torch.float64))
    rank = int((singular > 1e-9).sum())
    null = basis[rank:].T
    nearest = null[:4] @ torch.linalg.pinv(null[:4], rtol=1e-9)
    torch.testing.assert_close(solution.projection, nearest, atol=1e-8, rtol=0)


def test_a_form_reads_like_mathematics():
    assert repr(Form({"w": 2.0, "b": -1.0})) == "2*w - b"
    assert repr(Form()) == "0"
