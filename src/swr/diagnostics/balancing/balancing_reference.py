"""Weight balancing over one matrix of all units, all hidden units at once, in plain loops that can be compared with the paper.

W_ij is the weight from unit j to unit i of a feed-forward network, H the set of hidden units.

    π_ij = |W_ij|^p (Σ_k |W_ik|^p)^{q/p - 1}
    a_i  = (Σ_k π_ki / Σ_j π_ij)^{1 / (4 max(p, q))}   for i in H,  1 otherwise
    W_ij <- W_ij a_i / a_j,   b_i <- b_i a_i

:mod:`swr.diagnostics.balancing.rebalancing` proves the descent and reaches the same minimum in fewer, cheaper steps.

References:
    L. K. Saul: Weight-balancing fixes and flows for deep learning, 2023, Algorithm 1.
"""

from __future__ import annotations

from collections.abc import Collection, MutableSequence, Sequence

Matrix = Sequence[MutableSequence[float]]


def weight_balance(
    weights: Matrix, biases: MutableSequence[float], hidden: Collection[int], p: float, q: float, tolerance: float = 1e-9
) -> None:
    """Balance a network in place; every hidden unit must have non-zero incoming and outgoing weights.

    Args:
        weights: W, square, one row and one column for each unit, inputs and outputs included.
        biases: b.
        hidden: H.
        p: the order of the inner sum.
        q: the order of the outer sum.
        tolerance: the iteration stops when no factor a_i is further than this from 1.
    """
    units = range(len(weights))
    change = tolerance + 1
    while change > tolerance:
        rows = [sum(abs(w) ** p for w in weights[i]) for i in units]
        pi = [[abs(w) ** p * rows[i] ** (q / p - 1) if w else 0.0 for w in weights[i]] for i in units]
        a = [1.0 for _ in units]
        for i in hidden:
            incoming, outgoing = sum(pi[i]), sum(pi[k][i] for k in units)
            a[i] = (outgoing / incoming) ** (1 / (4 * max(p, q)))
        for i in units:
            for j in units:
                weights[i][j] *= a[i] / a[j]
            biases[i] *= a[i]
        change = max(abs(a[i] - 1) for i in units)


def entrywise_norm(weights: Matrix, p: float, q: float) -> float:
    """‖W‖_{p,q} = (Σ_i (Σ_j |W_ij|^p)^{q/p})^{1/q}."""
    total: float = sum(sum(abs(w) ** p for w in row) ** (q / p) for row in weights)
    norm: float = total ** (1 / q)
    return norm
