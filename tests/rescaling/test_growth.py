"""A growth budget: no norm passes ρ times its anchor, whatever the schedule, and the function changes by one constant only."""

import copy
import math

import pytest
import torch
from torch import nn

import swr
from nets import cnn, cnn_bn, confirmed, inputs_of, layer_norm_mlp, make, mlp, train
from swr.diagnostics import layer_norms, norm_limits, proportionality, slack, squared_changes
from swr.rescaling import reference
from swr.rescaling.balanced import balanced


def budget(model, growth=1.5, **options):
    return confirmed(swr.SoftWeightRescaling(model, inputs_of(model), growth=growth, **options))


def test_the_default_is_a_budget_with_balanced_anchors():
    model = make(mlp)
    rescaler = swr.SoftWeightRescaling(model, inputs_of(model))
    assert rescaler.aim.growth == 1.5
    assert rescaler.anchors() == pytest.approx(balanced(rescaler.plan, layer_norms(model)))
    assert len(set(rescaler.anchors().values())) == 1
    assert "growth=1.5, balanced anchors: 3 of 3 weights" in repr(rescaler)


@pytest.mark.parametrize("anchors", ["initial", "balanced"])
@pytest.mark.parametrize("build", [mlp, cnn, cnn_bn, layer_norm_mlp])
def test_norms_above_the_budget_are_brought_back_to_it_and_the_others_stay(build, anchors):
    model = make(build)
    rescaler = budget(model, 1.5, anchors=anchors)
    limits = {name: 1.5 * n for name, n in rescaler.anchors().items()}
    names = list(limits)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name in limits:
                p.mul_((2.0 if name in names[::2] else 0.9) * limits[name] / p.norm())
    before = copy.deepcopy(model)
    rescaler.step()
    after = layer_norms(model)
    for i, name in enumerate(names):
        assert after[name] == pytest.approx((1.0 if i % 2 == 0 else 0.9) * limits[name], rel=1e-9)
    x = inputs_of(model)
    assert proportionality(before, model, x).error < 1e-5
    untouched = copy.deepcopy(model.state_dict())
    rescaler.step()
    assert all(torch.allclose(untouched[k], v, rtol=1e-12, atol=0) for k, v in model.state_dict().items())


def test_it_is_the_printed_loop_with_the_budget_in_place_of_the_pull():
    model = make(mlp)
    other = copy.deepcopy(model)
    rescaler = swr.SoftWeightRescaling(model, inputs_of(model), growth=1.02, anchors="initial")
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    rescaler.attach(optimizer)
    layers, _ = reference.layers(other)
    limits = [1.02 * n for n in reference.initial_norms(layers)]
    twin = torch.optim.Adam(other.parameters(), lr=1e-2)
    acted = []

    def after():
        acted.append(reference.budget(layers, limits) < 1)

    torch.manual_seed(1)
    train(model, optimizer, 60)
    torch.manual_seed(1)
    train(other, twin, 60, after=after)
    assert any(acted)
    assert not all(acted), "below the budget nothing is done"
    for mine, theirs in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-12)


SCHEDULES = {
    "constant": lambda o: torch.optim.lr_scheduler.ConstantLR(o, factor=1.0),
    "step drops": lambda o: torch.optim.lr_scheduler.MultiStepLR(o, [80, 120], gamma=0.1),
    "cosine": lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 160),
    "warm-up": lambda o: torch.optim.lr_scheduler.LinearLR(o, 0.01, 1.0, 40),
    "1-cycle": lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 2e-2, total_steps=161),
    "restarts": lambda o: torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(o, 40),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_under_every_schedule_the_norms_reach_the_budget_and_never_pass_it(name):
    model = make(mlp)
    plain = copy.deepcopy(model)
    rescaler = swr.SoftWeightRescaling(model, inputs_of(model), growth=1.05, anchors="initial")
    limits = {key: 1.05 * n for key, n in rescaler.anchors().items()}
    highest = []
    for net in (model, plain):
        optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
        if net is model:
            rescaler.attach(optimizer)
        schedule = SCHEDULES[name](optimizer)
        seen = layer_norms(net)

        def after(net=net, schedule=schedule, seen=seen):
            schedule.step()
            seen.update({key: max(norm, seen[key]) for key, norm in layer_norms(net).items()})

        torch.manual_seed(2)
        train(net, optimizer, 160, after=after)
        highest.append(seen)
    kept, grown = highest
    assert all(kept[key] <= limit * (1 + 1e-9) for key, limit in limits.items())
    assert any(kept[key] > 0.999 * limit and grown[key] > 1.01 * limit for key, limit in limits.items()), "one would pass it"


def test_every_third_step_is_enough_to_bring_it_back():
    model = make(mlp)
    rescaler = budget(model, 1.0, anchors="initial", every=3)
    anchors = rescaler.anchors()
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(2)
    rescaler.step()
    rescaler.step()
    assert layer_norms(model) == pytest.approx({name: 2 * n for name, n in anchors.items()})
    rescaler.step()
    assert layer_norms(model) == pytest.approx(anchors)


def test_the_limit_of_theorem_2_with_a_budget_is_never_passed_and_close():
    model = make(mlp)
    rescaler = swr.SoftWeightRescaling(model, inputs_of(model), growth=1.1, anchors="initial")
    soft = swr.SoftWeightRescaling(copy.deepcopy(model), inputs_of(model), coefficient=1e-3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    norms, largest = layer_norms(model), dict.fromkeys(rescaler.anchors(), 0.0)

    def after():
        nonlocal norms
        updated = layer_norms(model)
        for name, change in squared_changes(norms, updated).items():
            largest[name] = max(largest[name], change)
        rescaler.step()
        norms = layer_norms(model)
        assert min(slack(norm_limits(rescaler, largest), updated).values()) >= 0

    train(model, optimizer, 100, after=after)
    assert all(norms[name] <= 1.1 * n * (1 + 1e-9) for name, n in rescaler.anchors().items())
    assert all(norm_limits(rescaler, largest)[name] < norm_limits(soft, largest)[name] / 10 for name in largest)


def test_anchors_by_pattern_are_the_norms_that_were_given():
    model = make(mlp)
    rescaler = budget(model, 2.0, anchors={"4.weight": 3.0, "*": 1.0})
    assert rescaler.anchors() == {"0.weight": 1.0, "2.weight": 1.0, "4.weight": 3.0}
    rescaler.step()
    assert layer_norms(model)["0.weight"] == pytest.approx(2.0)


def test_current_anchors_are_taken_at_the_first_step_whatever_was_loaded():
    model = make(mlp)
    rescaler = swr.SoftWeightRescaling(model, inputs_of(model), growth=1.0, anchors="current")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    rescaler.attach(optimizer)
    loaded = {name: 3 * tensor for name, tensor in model.state_dict().items()}
    model.load_state_dict(loaded)
    norms = layer_norms(model)
    train(model, optimizer, 1)  # no warning: pytest would raise it
    assert rescaler.anchors() == pytest.approx(norms)
    assert layer_norms(model) == pytest.approx(norms)


def test_rebase_balances_the_current_norms():
    model = make(mlp)
    rescaler = budget(model)
    with torch.no_grad():
        model[0].weight.mul_(8)
    old = rescaler.anchors()["0.weight"]
    rescaler.rebase()
    assert rescaler.anchors() == pytest.approx(dict.fromkeys(rescaler.anchors(), 2 * old))


def test_a_replaced_head_is_balanced_with_the_norms_the_others_started_from():
    model = make(mlp)
    rescaler = budget(model)
    before = rescaler.anchors()
    with torch.no_grad():
        model[0].weight.mul_(5)  # grown since
    head = nn.Linear(16, 4).double()
    with torch.no_grad():
        head.weight.mul_(float(model[4].weight.norm()) / head.weight.norm())  # as the old one started
    model[4] = head
    with pytest.warns(swr.ModelWarning, match="4 was replaced"):
        assert rescaler.anchors() == pytest.approx(before)


def test_a_weight_that_starts_at_zero_has_no_budget():
    model = make(mlp)
    nn.init.zeros_(model[4].weight)
    rescaler = budget(model, 1.0)
    assert rescaler.anchors()["4.weight"] == 0
    with torch.no_grad():
        model[4].weight.add_(1.0)
    with pytest.warns(swr.ModelWarning, match=r"4\.weight: the norm was zero"):
        rescaler.step()
    assert float(model[4].weight.detach().norm()) == pytest.approx(8.0)


def test_keeping_the_output_a_budget_can_only_move_norm_between_layers():
    model = make(mlp)
    rescaler = budget(model, 1.0, keep_output=True)
    x = inputs_of(model)
    with torch.no_grad():
        model[0].weight.mul_(4)
    before = model(x)
    product = math.prod(layer_norms(model).values())
    for _ in range(200):
        rescaler.step()
    torch.testing.assert_close(model(x), before)
    assert math.prod(layer_norms(model).values()) == pytest.approx(product)
    assert max(layer_norms(model).values()) / min(layer_norms(model).values()) < 1.01


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"growth": 1.5, "coefficient": 1e-3}, "two ways to limit the norms"),
        ({"growth": 0}, "growth ρ must be a positive number"),
        ({"growth": math.inf}, "growth ρ must be a positive number"),
        ({"growth": math.nan}, "growth ρ must be a positive number"),
        ({"growth": True}, "growth ρ must be a positive number"),
        ({"growth": "2"}, "growth ρ must be a positive number"),
        ({"anchors": "balance"}, "anchors must be"),
        ({"anchors": {}}, "anchors is an empty mapping"),
        ({"anchors": {"*": 0.0}}, "must be a positive norm"),
        ({"anchors": {"0.*": 1.0}}, "no pattern of anchors matches the weight '2.weight'"),
        ({"anchors": {"9.*": 1.0, "*": 1.0}}, "'9.*' of anchors matches no weight"),
        ({"on_lr_decay": "follow"}, "a budget (growth=1.5) follows any schedule by itself"),
        ({"growth": 1.5, "on_lr_decay": "rebase"}, "give coefficient=λ"),
        ({"keep_output": True, "inhomogeneous": "free"}, "keep_output=True cannot be promised"),
        ({"coefficient": 1.5}, "coefficient λ must be a number between 0 and 1"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options, said):
    model = make(mlp)
    with pytest.raises(swr.OptionError) as error:
        swr.SoftWeightRescaling(model, inputs_of(model), **options)
    assert said in str(error.value)


def test_a_coefficient_can_follow_the_square_of_the_learning_rate():
    model = make(mlp)
    rescaler = confirmed(swr.SoftWeightRescaling(model, inputs_of(model), coefficient=0.4, on_lr_decay="follow-squared"))
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    rescaler.attach(optimizer)
    optimizer.param_groups[0]["lr"] = 0.5
    optimizer.step()
    assert rescaler.coefficients() == pytest.approx(dict.fromkeys(rescaler.coefficients(), 0.1))
