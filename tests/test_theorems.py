"""The paper's theorems, on real runs and on random norms."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import swr
from nets import confirmed, inputs_of, make, mlp
from swr.norms import frobenius_norms


def test_norms_stay_below_the_bound_of_theorem_2_on_a_training_run():
    """‖W_t‖ ≤ √B / λ + ‖W_0‖ with B the largest change of ‖W‖² in one gradient update."""
    coefficient = 0.05
    model = make(mlp)
    weights = [p for p in model.parameters() if p.ndim == 2]
    rescaler = swr.SoftWeightRescaling(model, inputs_of(model), coefficient=coefficient)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    start = frobenius_norms(weights)
    largest_change, highest = torch.zeros(3), start
    x, labels = inputs_of(model, 256), torch.randint(4, (256,))
    for _ in range(400):
        loss = nn.functional.cross_entropy(model(x), labels)
        optimizer.zero_grad()
        loss.backward()
        before = frobenius_norms(weights)
        optimizer.step()
        after = frobenius_norms(weights)
        largest_change = torch.maximum(largest_change, (after.square() - before.square()).abs())
        rescaler.step()
        highest = torch.maximum(highest, frobenius_norms(weights))
    bound = largest_change.sqrt() / coefficient + start
    assert (highest <= bound).all()
    assert (highest > start * 1.05).any(), "the run was too short to grow at all"


positive = st.floats(1e-3, 1e3)


@given(w0=positive, v0=positive, w=positive, v=positive, coefficient=st.floats(0, 1))
@settings(derandomize=True, deadline=None, max_examples=300)
def test_the_imbalance_of_two_layers_never_grows_under_a_rescale(w0, v0, w, v, coefficient):
    """b_t = |‖V_t‖/‖W_t‖ − ‖V_0‖/‖W_0‖| (Theorem 3)."""
    model = nn.Sequential(nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)).double()
    first, second = model.parameters()
    plan = swr.chain(model)
    with torch.no_grad():
        first.fill_(w0)
        second.fill_(v0)
        rescaler = confirmed(swr.SoftWeightRescaling(model, coefficient=coefficient, plan=plan))
        first.fill_(w)
        second.fill_(v)
    rescaler.step()
    before = abs(v / w - v0 / w0)
    after = abs(second.item() / first.item() - v0 / w0)
    assert after <= before * (1 + 1e-9) + 1e-9 * (v / w + v0 / w0)
