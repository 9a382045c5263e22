"""What a rescale does at each step, for each option."""

import copy

import pytest
import torch
from torch import nn

import swr
from nets import cnn_bn, inputs_of, make, mlp, train
from swr.norms import frobenius_norms

# Growth is imitated by writing to the weights, which a rescaler notices before its first step.
pytestmark = pytest.mark.filterwarnings("ignore:the weights have changed since the rescaler was built")


def weights_of(model):
    return [p for p in model.parameters() if p.ndim >= 2]


def doubled(coefficient=0.1, **options):
    """A network with its weights at twice their anchors."""
    model = make(mlp)
    rescaler = swr.SoftWeightRescaling(model, inputs_of(model), coefficient=coefficient, **options)
    anchors = frobenius_norms(weights_of(model))
    with torch.no_grad():
        for w in weights_of(model):
            w.mul_(2)
    return model, rescaler, anchors


def test_each_norm_moves_by_lambda_towards_its_anchor():
    model, rescaler, anchors = doubled(0.1)
    rescaler.step()
    torch.testing.assert_close(frobenius_norms(weights_of(model)), 1.9 * anchors)


def test_a_norm_below_its_anchor_grows():
    model, rescaler, anchors = doubled(0.1)
    with torch.no_grad():
        for w in weights_of(model):
            w.div_(4)
    rescaler.step()
    torch.testing.assert_close(frobenius_norms(weights_of(model)), 0.55 * anchors)


def test_coefficients_by_pattern_take_the_first_match():
    model, rescaler, anchors = doubled({"0.weight": 1.0, "*": 0.5})
    rescaler.step()
    expected = anchors * torch.tensor([1.0, 1.5, 1.5], dtype=torch.float64)
    torch.testing.assert_close(frobenius_norms(weights_of(model)), expected)


def test_every_third_step_does_the_work_of_three():
    model, rescaler, anchors = doubled(0.1, every=3)
    untouched = copy.deepcopy(model.state_dict())
    rescaler.step()
    rescaler.step()
    assert all(torch.equal(untouched[k], v) for k, v in model.state_dict().items())
    rescaler.step()
    torch.testing.assert_close(frobenius_norms(weights_of(model)), (1 + 0.9**3) * anchors)


def test_rebase_makes_the_current_norms_the_anchors():
    model, rescaler, anchors = doubled(1.0)
    rescaler.rebase()
    rescaler.step()
    torch.testing.assert_close(frobenius_norms(weights_of(model)), 2 * anchors)


def test_a_drop_of_the_learning_rate_rebases_before_the_step_and_only_then():
    model, rescaler, _ = doubled(0.5, on_lr_decay="rebase")
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    rescaler.attach(optimizer)
    anchors = rescaler.state_dict()["anchors"]
    train(model, optimizer, 2)
    assert rescaler.state_dict()["anchors"] == anchors
    before = frobenius_norms(weights_of(model))
    optimizer.param_groups[0]["lr"] = 1e-4
    train(model, optimizer, 1)
    torch.testing.assert_close(torch.tensor(list(rescaler.state_dict()["anchors"].values()), dtype=torch.float64), before)
    optimizer.param_groups[0]["lr"] = 1e-3
    rebased = rescaler.state_dict()["anchors"]
    train(model, optimizer, 1)
    assert rescaler.state_dict()["anchors"] == rebased


def test_a_drop_in_one_parameter_group_rebases_that_group_only():
    model, rescaler, _ = doubled(0.5, on_lr_decay="rebase")
    optimizer = torch.optim.SGD([{"params": model[0].parameters()}, {"params": model[2:].parameters()}], lr=1e-3)
    rescaler.attach(optimizer)
    anchors = rescaler.state_dict()["anchors"]
    optimizer.param_groups[1]["lr"] = 1e-4
    train(model, optimizer, 1)
    now = rescaler.state_dict()["anchors"]
    assert now["0.weight"] == anchors["0.weight"]
    assert now["2.weight"] != anchors["2.weight"]


def test_follow_scales_lambda_with_the_learning_rate():
    model, rescaler, anchors = doubled(0.1, on_lr_decay="follow")
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    rescaler.attach(optimizer)
    optimizer.param_groups[0]["lr"] = 0.5
    optimizer.step()  # no gradients: only the rescale acts
    torch.testing.assert_close(frobenius_norms(weights_of(model)), 1.95 * anchors)


def test_keep_output_keeps_the_function_itself():
    model, rescaler, _ = doubled(0.5, keep_output=True)
    x = inputs_of(model)
    with torch.no_grad():
        model[0].weight.mul_(3)
        before, norms = model(x), frobenius_norms(weights_of(model))
        rescaler.step()
        torch.testing.assert_close(model(x), before)
    assert frobenius_norms(weights_of(model))[0] < 0.95 * norms[0], "nothing was rescaled"


def test_without_keep_output_the_function_is_multiplied_by_one_constant():
    model, rescaler, _ = doubled(0.5)
    x = inputs_of(model)
    with torch.no_grad():
        before = model(x)
        rescaler.step()
        torch.testing.assert_close(model(x), before * 0.75**3)


def test_running_statistics_follow_so_evaluation_right_after_a_rescale_is_right():
    model = make(cnn_bn)
    x = inputs_of(model, 64)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    train(model, optimizer, 50)
    rescaler = swr.SoftWeightRescaling(model, x, coefficient=1.0)
    with torch.no_grad():
        model[0].weight.mul_(1.7)
        model[0].bias.mul_(1.7)
        model[1].running_mean.mul_(1.7)
        model[1].running_var.mul_(1.7**2)
        model.eval()
        before, mean = model(x), model[1].running_mean.clone()
        rescaler.step()
        torch.testing.assert_close(model(x), before, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(model[1].running_mean, mean / 1.7)


def test_moving_the_model_replaces_its_buffers_and_they_still_follow():
    model = make(cnn_bn)
    rescaler = swr.SoftWeightRescaling(model, inputs_of(model), coefficient=1.0)
    model[1].running_mean = model[1].running_mean + 1.0
    with torch.no_grad():
        model[0].weight.mul_(2)
    rescaler.step()
    torch.testing.assert_close(model[1].running_mean, torch.full((4,), 0.5, dtype=torch.float64))


def test_frozen_parameters_stay_bit_identical_and_the_rest_is_pulled():
    model = make(mlp)
    model[0].requires_grad_(False)
    rescaler = swr.SoftWeightRescaling(model, inputs_of(model), coefficient=1.0)
    frozen = copy.deepcopy(model[0].state_dict())
    with torch.no_grad():
        model[2].weight.mul_(2)
    rescaler.step()
    assert all(torch.equal(frozen[k], v) for k, v in model[0].state_dict().items())
    assert rescaler.plan.frozen == ("0.weight", "0.bias")
    torch.testing.assert_close(float(model[2].weight.detach().norm()), rescaler.state_dict()["anchors"]["2.weight"])


@pytest.mark.parametrize("coefficient", [1.0, 0.1])
@pytest.mark.parametrize("value", [0.0, float("nan"), float("inf")])
def test_zero_and_non_finite_norms_leave_the_layer_alone_and_do_not_spread(value, coefficient):
    model, rescaler, anchors = doubled(coefficient)
    with torch.no_grad():
        model[2].weight.fill_(value)
    rescaler.step()
    assert torch.equal(model[2].weight.isnan(), torch.full_like(model[2].weight, value).isnan())
    assert bool((model[2].weight == value).all()) or value != value
    for name, p in model.named_parameters():
        assert name == "2.weight" or p.isfinite().all()
    expected = (2 - coefficient) * anchors
    torch.testing.assert_close(frobenius_norms([model[0].weight, model[4].weight]), expected[[0, 2]])


def test_a_weight_that_starts_at_zero_has_no_anchor_until_rebase_and_describe_says_so():
    model = make(mlp)
    nn.init.zeros_(model[4].weight)
    rescaler = swr.SoftWeightRescaling(model, inputs_of(model), coefficient=1.0)
    assert "no anchor" in rescaler.describe()
    with torch.no_grad():
        model[4].weight.fill_(1.0)
    with pytest.warns(swr.ModelWarning, match=r"4\.weight: the norm was zero.*left alone until rebase\(\)"):
        rescaler.step()
    assert (model[4].weight == 1).all()
    rescaler.rebase()
    assert "no anchor" not in rescaler.describe()
    with torch.no_grad():
        model[4].weight.fill_(2.0)
    rescaler.step()
    torch.testing.assert_close(model[4].weight, torch.ones_like(model[4].weight))


def test_attach_rescales_after_every_step_and_remove_undoes_it():
    model, rescaler, _ = doubled(0.1)
    optimizer = torch.optim.Adam(model.parameters())
    handle = rescaler.attach(optimizer)
    train(model, optimizer, 3)
    assert rescaler.state_dict()["optimizers"][0]["steps"] == 3
    handle.remove()
    handle.remove()
    train(model, optimizer, 2)
    assert rescaler.state_dict()["optimizers"][0]["steps"] == 3
    rescaler.attach(optimizer)


def test_a_model_with_nothing_to_scale_is_left_alone():
    model = nn.LSTM(3, 4, batch_first=True)
    rescaler = swr.SoftWeightRescaling(model, torch.randn(2, 5, 3), coefficient=1.0)
    before = copy.deepcopy(model.state_dict())
    with pytest.warns(swr.ModelWarning, match="only 0 of 4 weight tensors, 0 % of the entries"):
        rescaler.step()
    rescaler.step()  # said once
    assert all(torch.equal(before[k], v) for k, v in model.state_dict().items())
    assert set(rescaler.plan.held) == set(before)


def test_most_weights_held_is_said_with_their_share_and_the_choice():
    model = nn.Sequential(nn.Linear(40, 50), nn.Tanh(), nn.Linear(50, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    share = r"only 1 of 2 weight tensors, 9\.1 % of the entries.*inhomogeneous=\"pass\""
    with pytest.warns(swr.ModelWarning, match=share):
        swr.SoftWeightRescaling(model, torch.ones(1, 40)).attach(optimizer)


def test_a_step_by_hand_is_refused_while_an_optimizer_calls_it():
    model, rescaler, _ = doubled(0.1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    handle = rescaler.attach(optimizer)
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(swr.AttachError, match=r"rescales after each of its steps already.*handle\.remove\(\)"):
        rescaler.step()
    assert all(torch.equal(before[k], v) for k, v in model.state_dict().items())
    handle.remove()
    rescaler.step()
    assert not torch.equal(before["0.weight"], model[0].weight)
