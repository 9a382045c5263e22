"""The monitor: that it changes nothing, which steps it records, and how it resumes."""

import copy
import math

import pytest
import torch
from torch import nn

import swr
from nets import cnn_bn, inputs_of, make, mlp, train
from swr.diagnostics import Monitor, layer_norms
from swr.diagnostics.monitor.measures import MEASURES

from .monitor_helpers import monitored, sgd


def noisy():
    """Batch norm, dropout and a head: everything that a careless look would disturb."""
    return nn.Sequential(*cnn_bn()[:-1], nn.Dropout(), nn.Linear(10, 4))


def own(model):
    model(inputs_of(model))
    return {"random": torch.rand(()).item()}


def test_training_is_the_same_bit_for_bit_with_every_measure_on():
    model = make(noisy, dtype=torch.float32)
    plain = copy.deepcopy(model)
    monitor, optimizer, _ = monitored(model, every=2, measures=[*MEASURES, own])
    plan_optimizer = sgd(plain)
    swr.SoftWeightRescaling(plain, inputs_of(plain), coefficient=0.01).attach(plan_optimizer)
    torch.manual_seed(2)
    train(model, optimizer, 6)
    state = torch.get_rng_state()
    torch.manual_seed(2)
    train(plain, plan_optimizer, 6)
    assert torch.equal(state, torch.get_rng_state())
    for (name, value), (_, expected) in zip(model.state_dict().items(), plain.state_dict().items(), strict=True):
        assert torch.equal(value, expected), name
    for p, expected in zip(model.parameters(), plain.parameters(), strict=True):
        assert torch.equal(p.grad, expected.grad)
        assert torch.equal(optimizer.state[p]["momentum_buffer"], plan_optimizer.state[expected]["momentum_buffer"])
    assert all(module.training for module in model.modules())
    assert [row["step"] for row in monitor.rows] == [0, 2, 4, 6]
    families = {name.partition("/")[0] for name in monitor.rows[-1]}
    assert families == {"step", "slack", "own", *MEASURES}


@pytest.mark.parametrize("rescaler_first", [True, False])
def test_the_order_of_attaching_does_not_matter(rescaler_first):
    """The update is the optimizer's alone, the norm is after the rescale, and the rescale is seen to be proportional."""
    model = make(mlp)
    x = inputs_of(model)
    rescaler = swr.SoftWeightRescaling(model, x, coefficient=0.5)
    monitor = Monitor(model, every=1, anchors=rescaler, inputs=x, measures=("norm", "update", "limit", "proportionality"))
    optimizer = sgd(model, lr=0.5)
    for one in (rescaler, monitor) if rescaler_first else (monitor, rescaler):
        one.attach(optimizer)
    model(x).square().sum().backward()
    before = model[0].weight.detach().clone()
    updated = before - 0.5 * model[0].weight.grad
    optimizer.step()
    row = monitor.rows[-1]
    anchor = before.norm().item()
    assert row["norm/0.weight"] == pytest.approx((updated.norm().item() + anchor) / 2)
    assert row["update/0.weight"] == pytest.approx((updated - before).norm().item() / anchor)
    change = abs(updated.norm().item() ** 2 - anchor**2)
    assert row["limit/0.weight"] == pytest.approx(math.sqrt(change) / 0.5 + anchor)
    assert row["slack/0.weight"] == pytest.approx(row["limit/0.weight"] - row["norm/0.weight"])
    assert row["proportionality/error"] < 1e-14
    assert abs(row["proportionality/constant"] - 1) > 0.01


def test_every_measure_may_have_its_own_interval():
    model = make(mlp)
    optimizer = sgd(model)
    monitor = Monitor(model, measures={"norm": 2, "dormant": 3, "update": 4}, inputs=inputs_of(model))
    monitor.attach(optimizer)
    train(model, optimizer, 6)
    families = {row["step"]: {name.partition("/")[0] for name in row} - {"step"} for row in monitor.rows}
    assert families == {0: {"norm", "dormant"}, 2: {"norm"}, 3: {"dormant"}, 4: {"norm", "update"}, 6: {"norm", "dormant"}}


def test_record_by_hand_and_remove():
    model = make(mlp)
    optimizer = sgd(model)
    monitor = Monitor(model, every=1, measures=["norm", "update"])
    handle = monitor.attach(optimizer)
    train(model, optimizer, 1)
    handle.remove()
    train(model, optimizer, 2)
    row = monitor.record()
    assert [r["step"] for r in monitor.rows] == [0, 1, 1]
    assert row["norm/0.weight"] == layer_norms(model)["0.weight"]
    assert not [name for name in row if name.startswith("update")]
    monitor.attach(optimizer)
    train(model, optimizer, 1)
    assert monitor.rows[-1]["step"] == 2


@pytest.mark.parametrize("fused", [False, True])
def test_steps_that_a_grad_scaler_skips_do_not_count(fused):
    model = make(mlp, dtype=torch.float32)
    optimizer = torch.optim.Adam(model.parameters(), fused=fused)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    monitor = Monitor(model, every=2, measures=["update", "gradient"])
    monitor.attach(optimizer)
    gradients = []
    for step in range(7):
        optimizer.zero_grad()
        scaler.scale(model(inputs_of(model)).square().mean()).backward()
        gradients.append(model[0].weight.grad.norm().item() / scaler.get_scale())
        if step in (1, 2, 5):
            model[0].weight.grad[0, 0] = math.inf
        scaler.step(optimizer)
        scaler.update()
    # real steps are 0, 3, 4, 6: the second and the fourth of them are recorded
    assert [row["step"] for row in monitor.rows] == [0, 2, 4]
    assert monitor.state_dict()["steps"] == 4
    assert [row["gradient/0.weight"] for row in monitor.rows[1:]] == pytest.approx([gradients[3], gradients[6]])
    assert all(row["update/0.weight"] > 0 for row in monitor.rows[1:])


def test_a_closure_and_a_scheduler_do_not_disturb_the_count():
    model = make(mlp)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    monitor = Monitor(model, every=1, measures=["update"])
    monitor.attach(optimizer)
    x = inputs_of(model)

    def closure():
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        return loss

    for _ in range(2):
        optimizer.step(closure)
        scheduler.step()
    assert [row["step"] for row in monitor.rows] == [0, 1, 2]


def test_resuming_keeps_the_anchors_and_the_largest_change():
    monitor, optimizer, rescaler = monitored(make(mlp), every=1, measures=["limit", "ratio"])
    train(monitor.model, optimizer, 4)
    state = copy.deepcopy(monitor.state_dict())
    again, _, _ = monitored(make(mlp, seed=5), every=1, measures=["limit", "ratio"])
    again.load_state_dict(state)
    assert again.state_dict() == state
    assert state["steps"] == 4
    assert set(state["measures"]["limit"]) == {"0.weight", "2.weight", "4.weight"}
    with pytest.raises(swr.StateError, match="another model"):
        again.load_state_dict({**state, "start": {"other": 1.0}})
    with pytest.raises(swr.StateError, match="not the state of a Monitor"):
        again.load_state_dict(rescaler.state_dict())


def test_an_interval_of_no_steps_and_a_wrong_attachment_are_refused():
    model = make(mlp)
    with pytest.raises(swr.OptionError, match="at least 1"):
        Monitor(model, measures={"norm": 0})
    monitor = Monitor(model)
    with pytest.raises(swr.AttachError, match="none of this model's parameters"):
        monitor.attach(sgd(make(mlp)))
    optimizer = sgd(model)
    monitor.attach(optimizer)
    with pytest.raises(swr.AttachError, match="already attached"):
        monitor.attach(optimizer)
