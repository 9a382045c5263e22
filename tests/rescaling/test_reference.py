"""The fast path equals Algorithm 1 as printed, where the printed algorithm is right; a test shows where it is not."""

import copy

import pytest
import torch

import swr
from nets import cnn, cnn_bn, inputs_of, layer_norm_mlp, make, mlp, train
from swr.rescaling import reference


@pytest.mark.parametrize("coefficient", [1, 0.1, 1e-2, 1e-3, 1e-4])
@pytest.mark.parametrize("build", [mlp, cnn])
def test_a_hundred_adam_steps_equal_the_printed_algorithm(build, coefficient):
    ours, theirs, vanilla = make(build), make(build), make(build)
    optimizers = [torch.optim.Adam(m.parameters(), lr=1e-2) for m in (ours, theirs, vanilla)]
    swr.SoftWeightRescaling(ours, inputs_of(ours), coefficient=coefficient).attach(optimizers[0])
    layers, k = reference.layers(theirs)
    assert k == 0
    norms = reference.initial_norms(layers)

    torch.manual_seed(1)
    train(ours, optimizers[0], 100)
    torch.manual_seed(1)
    train(
        theirs,
        optimizers[1],
        100,
        after=lambda: reference.soft_weight_rescaling(layers, norms, [coefficient] * len(layers), k),
    )
    torch.manual_seed(1)
    train(vanilla, optimizers[2], 100)

    for (name, mine), printed, plain in zip(ours.named_parameters(), theirs.parameters(), vanilla.parameters(), strict=True):
        torch.testing.assert_close(mine, printed, rtol=1e-10, atol=1e-10, msg=name)
        assert (mine - plain).abs().max() > 1e-6, f"{name}: SWR changed nothing"


@pytest.mark.parametrize("build", [cnn_bn, layer_norm_mlp])
def test_the_printed_algorithm_departs_from_proportionality_with_normalisation_and_ours_does_not(build):
    model = make(build)
    x = inputs_of(model, 64)
    train(model, torch.optim.Adam(model.parameters(), lr=1e-2), 30)
    model.eval()
    anchors = [0.5 * float(w.detach().norm()) for w, _ in reference.layers(model)[0]]

    printed = copy.deepcopy(model)
    layers, k = reference.layers(printed)
    assert k > 0
    reference.soft_weight_rescaling(layers, anchors, [0.1] * len(layers), k)

    exact = copy.deepcopy(model)
    scalers = {
        name: 0.1 * anchor / float(p.detach().norm()) + 0.9
        for (name, p), anchor in zip(((n, p) for n, p in exact.named_parameters() if "weight" in n), anchors, strict=True)
    }
    swr.rescale(exact, swr.analyze(model, x), scalers)

    deviations = {}
    for name, network in (("printed", printed), ("exact", exact)):
        before, after = model(x).detach(), network(x).detach()
        constant = (before * after).sum() / before.square().sum()
        deviations[name] = float((after - constant * before).norm() / after.norm())
    assert deviations["exact"] < 1e-4  # the epsilon of the normalisation layers
    assert deviations["printed"] > 1e-3
    for (name, mine), theirs in zip(exact.named_parameters(), printed.parameters(), strict=True):
        if "weight" in name:
            torch.testing.assert_close(mine, theirs, msg=f"{name}: weights agree, only shifts and biases differ")
