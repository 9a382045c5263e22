"""The measures: their numbers are those of the pure functions, and the theorems hold in a run."""

import math

import pytest
import torch
import torch.nn.functional as F

import swr
from nets import inputs_of, make, mlp, train
from swr.diagnostics import Monitor, layer_norms, norm_ratios
from swr.diagnostics.monitor.measures import CHEAP

from .monitor_helpers import sgd


def test_the_numbers_are_those_of_the_pure_functions():
    model = make(mlp)
    start = layer_norms(model)
    monitor = Monitor(model, every=1)
    optimizer = sgd(model, momentum=0)
    monitor.attach(optimizer)
    x = inputs_of(model)
    F.cross_entropy(model(x), torch.randint(4, (8,))).backward()
    before, gradient = model[0].weight.detach().clone(), model[0].weight.grad.norm().item()
    optimizer.step()
    first, row = monitor.rows
    assert {name.partition("/")[0] for name in row} == {"step", *CHEAP}
    assert first["norm/0.weight"] == start["0.weight"]
    assert not [name for name in first if name.startswith(("update", "gradient"))]
    assert row["norm/0.weight"] == pytest.approx(model[0].weight.norm().item()) != first["norm/0.weight"]
    assert row["ratio/0.weight"] == pytest.approx(norm_ratios(layer_norms(model), start)["0.weight"])
    assert row["update/0.weight"] == pytest.approx(0.1 * gradient / before.norm().item())
    assert row["gradient/0.weight"] == pytest.approx(gradient)
    assert row["gradient"] == pytest.approx(math.hypot(*[p.grad.norm().item() for p in model.parameters()]))
    assert first["balance/largest"] == 0 < row["balance/mean"] <= row["balance/largest"]


def test_a_shrunken_network_is_seen_not_to_be_proportional():
    model = make(mlp)
    optimizer = sgd(model)
    monitor = Monitor(model, every=1, inputs=inputs_of(model, 64), measures=["proportionality"])
    monitor.attach(optimizer)
    optimizer.register_step_post_hook(lambda *_: [p.data.mul_(0.5) for p in model.parameters()])
    train(model, optimizer, 1)
    assert monitor.rows[-1]["proportionality/error"] > 0.05


def test_under_swr_the_norms_stay_below_the_limit_and_without_they_grow():
    def run(coefficient):
        model = make(mlp)
        x, labels = inputs_of(model, 256), torch.randint(4, (256,))
        rescaler = swr.SoftWeightRescaling(model, x, coefficient=coefficient) if coefficient else None
        optimizer = sgd(model, lr=0.5, momentum=0)
        if rescaler is not None:
            rescaler.attach(optimizer)
        monitor = Monitor(model, every=1, anchors=rescaler)
        monitor.attach(optimizer)
        for _ in range(150):
            optimizer.zero_grad()
            F.cross_entropy(model(x), labels).backward()
            optimizer.step()
        return monitor.rows

    rows, vanilla = run(0.05), run(None)
    for layer in ("0.weight", "2.weight", "4.weight"):
        assert min(row[f"slack/{layer}"] for row in rows[1:]) > 0
        assert vanilla[-1][f"ratio/{layer}"] > 1.2
        assert rows[-1][f"ratio/{layer}"] < vanilla[-1][f"ratio/{layer}"]
        assert [row[f"limit/{layer}"] for row in rows[1:]] == sorted(row[f"limit/{layer}"] for row in rows[1:])


def test_a_measure_that_is_unknown_or_lacks_its_data_is_refused_with_the_way_out():
    model = make(mlp)
    with pytest.raises(swr.OptionError, match="no measure 'nrom'"):
        Monitor(model, measures=["nrom"])
    with pytest.raises(swr.OptionError, match="needs inputs="):
        Monitor(model, measures=["dormant"])
    with pytest.raises(swr.OptionError, match="batch=\\(inputs, targets\\) and loss_fn="):
        Monitor(model, measures=["curvature"])
    with pytest.raises(swr.OptionError, match="a SoftWeightRescaling"):
        Monitor(model, measures=["limit"], anchors=layer_norms(model))
