"""The monitor: what it records and when, that it changes nothing, where its rows go, and how it resumes."""

import copy
import math
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import swr
from nets import cnn_bn, inputs_of, make, mlp, train
from swr.diagnostics import Monitor, layer_norms, norm_ratios, read_csv
from swr.diagnostics.monitor.measures import CHEAP, MEASURES


def noisy():
    """Batch norm, dropout and a head: everything that a careless look would disturb."""
    return nn.Sequential(*cnn_bn()[:-1], nn.Dropout(), nn.Linear(10, 4))


def sgd(model, **options):
    return torch.optim.SGD(model.parameters(), **{"lr": 0.1, "momentum": 0.9, **options})


def monitored(model, **options):
    torch.manual_seed(1)
    x = inputs_of(model)
    rescaler = swr.SoftWeightRescaling(model, x, coefficient=0.01)
    optimizer = sgd(model)
    rescaler.attach(optimizer)
    monitor = Monitor(model, anchors=rescaler, batch=(x, torch.randint(4, (8,))), loss_fn=F.cross_entropy, **options)
    monitor.attach(optimizer)
    return monitor, optimizer, rescaler


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


def test_the_csv_file_holds_the_same_rows_and_is_complete_after_every_step(tmp_path):
    model = make(mlp)
    optimizer = sgd(model)
    path = tmp_path / "new" / "run.csv"
    monitor = Monitor(model, every=1, to=path)
    monitor.attach(optimizer)
    for _ in range(3):
        train(model, optimizer, 1)
        assert read_csv(path) == monitor.rows
    assert path.read_text().splitlines()[:2] == ["step,name,value", f"0,norm/0.weight,{monitor.rows[0]['norm/0.weight']!r}"]


def test_a_csv_file_goes_on_after_a_crash_with_other_measures(tmp_path):
    """A line cut in the middle is dropped, steps behind the checkpoint are measured again, a new measure fits in."""
    path = tmp_path / "run.csv"
    whole = tmp_path / "whole.csv"

    def run(to, measures, steps, state=None):
        model = make(mlp)
        optimizer = sgd(model)
        monitor = Monitor(model, every=1, measures=measures, to=to)
        if state is not None:
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            monitor.load_state_dict(state["monitor"])
        monitor.attach(optimizer)
        states = []
        for step in range(monitor.steps, steps):
            torch.manual_seed(step)
            train(model, optimizer, 1)
            parts = {"model": model, "optimizer": optimizer, "monitor": monitor}
            states.append(copy.deepcopy({name: part.state_dict() for name, part in parts.items()}))
        return monitor, states

    run(whole, ["norm", "ratio"], 6)
    _, states = run(path, ["norm", "ratio"], 4)
    with path.open("a") as file:
        file.write("5,norm/0.wei")
    monitor, _ = run(path, ["norm", "ratio", "balance"], 6, states[1])
    assert [row["step"] for row in monitor.rows] == [3, 4, 5, 6]
    rows, expected = read_csv(path), read_csv(whole)
    assert [row["step"] for row in rows] == [0, 1, 2, 3, 4, 5, 6]
    assert [{k: v for k, v in row.items() if not k.startswith("balance")} for row in rows] == expected
    assert "balance/largest" in rows[-1]


def test_a_line_that_was_cut_off_is_not_glued_to_the_next(tmp_path):
    path = tmp_path / "run.csv"
    model = nn.Linear(2, 1)
    row = Monitor(model, measures=["norm"], to=path).record()
    with path.open("a") as file:
        file.write("1,norm/wei")
    Monitor(model, measures=["norm"], to=path).record()
    assert read_csv(path) == [row, row]


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


def test_rows_go_to_a_writer_and_a_function(tmp_path):
    class Writer:
        def __init__(self):
            self.scalars = []

        def add_scalar(self, name, value, step):
            self.scalars.append((step, name, value))

    model, writer, seen = make(mlp), Writer(), []
    optimizer = sgd(model)
    monitor = Monitor(model, every=1, measures=["norm"], to=[writer, seen.append, tmp_path / "run.csv"])
    monitor.attach(optimizer)
    train(model, optimizer, 1)
    assert seen == monitor.rows == read_csv(tmp_path / "run.csv")
    assert [s[:2] for s in writer.scalars[:3]] == [(0, "norm/0.weight"), (0, "norm/2.weight"), (0, "norm/4.weight")]
    assert writer.scalars[3:] == [(1, name, value) for name, value in monitor.rows[1].items() if name != "step"]


def test_tensorboards_own_writer_takes_the_rows(tmp_path):
    pytest.importorskip("tensorboard")
    code = (
        "import sys, torch, warnings; warnings.simplefilter('ignore')\n"
        "from torch.utils.tensorboard import SummaryWriter\n"
        "from tensorboard.backend.event_processing.event_accumulator import EventAccumulator\n"
        "from swr.diagnostics import Monitor\n"
        "model = torch.nn.Linear(3, 2)\n"
        "with SummaryWriter(sys.argv[1]) as writer:\n"
        "    row = Monitor(model, measures=['norm'], to=writer).record()\n"
        "events = EventAccumulator(sys.argv[1]); events.Reload()\n"
        "(event,) = events.Scalars('norm/weight')\n"
        "assert event.step == 0 and abs(event.value - row['norm/weight']) < 1e-6\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)


def test_diagnostics_need_torch_alone():
    code = (
        "import sys, torch; before = set(sys.modules)\n"
        "import swr.diagnostics\n"
        "extras = {'numpy', 'scipy', 'sklearn', 'tensorboard', 'torch.utils.tensorboard', 'swr.bench'}\n"
        "assert not extras & (set(sys.modules) - before), extras & (set(sys.modules) - before)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_wrong_use_is_refused_with_the_way_out(tmp_path):
    model = make(mlp)
    with pytest.raises(swr.OptionError, match="no measure 'nrom'"):
        Monitor(model, measures=["nrom"])
    with pytest.raises(swr.OptionError, match="needs inputs="):
        Monitor(model, measures=["dormant"])
    with pytest.raises(swr.OptionError, match="batch=\\(inputs, targets\\) and loss_fn="):
        Monitor(model, measures=["curvature"])
    with pytest.raises(swr.OptionError, match="a SoftWeightRescaling"):
        Monitor(model, measures=["limit"], anchors=layer_norms(model))
    with pytest.raises(swr.OptionError, match="at least 1"):
        Monitor(model, measures={"norm": 0})
    with pytest.raises(swr.OptionError, match="found int"):
        Monitor(model, to=3)
    (tmp_path / "notes.csv").write_text("a,b\n1,2\n")
    with pytest.raises(swr.OptionError, match="not a file of a monitor"):
        Monitor(model, to=tmp_path / "notes.csv")
    assert (tmp_path / "notes.csv").read_text() == "a,b\n1,2\n"
    monitor = Monitor(model)
    with pytest.raises(swr.AttachError, match="none of this model's parameters"):
        monitor.attach(sgd(make(mlp)))
    optimizer = sgd(model)
    monitor.attach(optimizer)
    with pytest.raises(swr.AttachError, match="already attached"):
        monitor.attach(optimizer)
