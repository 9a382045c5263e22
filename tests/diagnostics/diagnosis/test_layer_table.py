"""Each layer beside the same layer of fresh networks."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from diagnostics.diagnosis.known import batches, curve, fingerprint, fresh, silenced
from swr.diagnostics.diagnosis.layer_table import layers_of, mixed, table, transplanted


def rows(model):
    found = table(model, [fresh(1), fresh(2)], batches()[0], F.cross_entropy, [curve(2, 0)], [curve(2, 0)])
    return {layer.name: layer for layer in found}


def test_a_grown_and_a_silent_layer_are_seen_in_their_own_rows():
    model = silenced(fresh(0), 2, 16)
    with torch.no_grad():
        model[0].weight *= 3
    found = rows(model)
    assert found["0"].norm == pytest.approx(3, rel=0.1)
    assert found["2"].norm == pytest.approx(1, rel=0.1)
    assert found["2"].units.silent == pytest.approx(0.5, abs=0.1)
    assert found["2"].fresh_units.silent < 0.2
    assert found["0"].units.silent < 0.2
    assert found["4"].units is None  # no activation follows the head


def test_copies_and_rank_are_of_the_layers_units():
    model = fresh(0)
    with torch.no_grad():
        model[0].weight[1:] = model[0].weight[0]
        model[0].bias[1:] = model[0].bias[0]
    found = rows(model)
    assert found["0"].units.duplicate == pytest.approx(31 / 32)
    assert found["0"].units.rank == pytest.approx(1, abs=1e-3)
    assert found["0"].fresh_units.duplicate < 0.1
    assert found["0"].fresh_units.rank > 5


def test_gradient_ratios_compare_with_fresh_networks_on_the_same_batch():
    model = fresh(0)
    with torch.no_grad():
        model[4].weight *= 10
    assert rows(model)["0"].gradient > 3
    assert rows(fresh(0))["0"].gradient == pytest.approx(1, rel=0.5)


def test_measuring_changes_nothing():
    model = fresh(0)
    before = fingerprint(model)
    rows(model)
    assert fingerprint(model) == before


def test_a_transplanted_layer_is_the_donors_and_the_rest_is_not():
    model, donor = fresh(0), fresh(1)
    found = transplanted(model, donor, "2.weight")
    assert torch.equal(found[2].weight, donor[2].weight)
    assert torch.equal(found[2].bias, donor[2].bias)
    assert torch.equal(found[0].weight, model[0].weight)
    assert not torch.equal(model[2].weight, donor[2].weight)


def test_mixing_is_shrink_and_perturb():
    model, donor = fresh(0), fresh(1)
    found = mixed(model, donor, 0.8)
    torch.testing.assert_close(found[0].weight, 0.2 * model[0].weight + 0.8 * donor[0].weight)


def test_layers_are_matrices_and_kernels_named_by_their_module():
    model = nn.Sequential(nn.Conv1d(2, 3, 1), nn.BatchNorm1d(3), nn.LSTM(4, 5))
    assert list(layers_of(model).values()) == ["0", "2.weight_ih_l0", "2.weight_hh_l0"]
    assert layers_of(nn.Linear(2, 2)) == {"weight": "the model"}
    assert torch.equal(transplanted(nn.Linear(2, 2), (donor := nn.Linear(2, 2)), "weight").weight, donor.weight)
