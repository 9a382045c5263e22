"""Arithmetic of forms, and the projection as the least-squares answer."""

import copy
import pickle

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from swr.algebra.flow import Flow
from swr.algebra.forms import ANY, ZERO, Equation, Form, Value, constant, settled
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


def test_what_fits_every_form_is_a_sentinel_of_its_own():
    assert repr(ANY) == "ANY"
    assert ANY is not None
    assert pickle.loads(pickle.dumps(ANY)) is copy.deepcopy(ANY) is ANY
    assert settled(ANY) == ZERO


values = st.one_of(forms, st.just(ANY)).map(Value)


@given(st.lists(values, min_size=1, max_size=4))
@settings(derandomize=True, deadline=None)
def test_a_sum_with_zeros_is_the_sum_without_them_and_a_product_with_zeros_is_zero(terms):
    plain, padded = Flow(), Flow()
    known = [v for v in terms if v.form is not ANY]
    assert plain.same(*known) == padded.same(*terms, constant(torch.zeros(2)), 0.0)
    assert plain.equations == padded.equations
    assert Flow().product(*terms) == (ANY if len(known) < len(terms) else sum((v.form for v in known), ZERO))
