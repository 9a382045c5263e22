"""Attached to an optimizer: several of them, copies of them, compiled ones, and groups that come later."""

import copy
import gc
import pickle
import warnings
import weakref

import pytest
import torch
from torch import nn

import swr
from nets import inputs_of, make, mlp, train
from swr import methods
from swr.norms import frobenius_norms

# Growth is imitated by writing to the weights, which a rescaler notices before its first step.
pytestmark = pytest.mark.filterwarnings("ignore:the weights have changed since the rescaler was built")


def doubled(**options):
    model = make(mlp)
    rescaler = swr.SoftWeightRescaling(model, inputs_of(model), coefficient=0.1, **options)
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(2)
    return model, rescaler


def norms_of(model):
    return frobenius_norms([model[i].weight.detach() for i in (0, 2, 4)])


def still(*modules):
    """An optimizer whose step changes nothing, so that only the rescale does."""
    return torch.optim.SGD([p for module in modules for p in module.parameters()], lr=0.0)


def test_each_of_several_optimizers_pulls_what_it_holds_and_the_function_stays_proportional():
    model, rescaler = doubled()
    body, head = still(model[0]), still(model[4])
    rescaler.attach(body)
    rescaler.attach(head)
    start, x = norms_of(model), inputs_of(model)
    before = model(x).detach()
    body.step()
    factors = torch.tensor([0.95, 0.95, 1.0], dtype=torch.float64)  # none holds the middle layer: it goes with the first
    torch.testing.assert_close(norms_of(model), factors * start)
    torch.testing.assert_close(model(x), 0.95**2 * before)
    head.step()
    torch.testing.assert_close(norms_of(model), 0.95 * start)
    torch.testing.assert_close(model(x), 0.95**3 * before)


def test_a_weight_in_two_optimizers_is_pulled_after_the_steps_of_both():
    model, rescaler = doubled()
    first, second = still(model), still(model[0])
    rescaler.attach(first)
    rescaler.attach(second)
    start = norms_of(model)
    first.step()
    second.step()
    torch.testing.assert_close(norms_of(model), torch.tensor([0.905, 0.95, 0.95], dtype=torch.float64) * start)


def test_the_state_of_two_optimizers_waits_until_both_are_attached():
    def set_up():
        model, rescaler = doubled(every=3)
        return model, rescaler, still(model[:4]), still(model[4])

    model, rescaler, body, head = set_up()
    rescaler.attach(body)
    rescaler.attach(head)
    start = norms_of(model)
    body.step()
    head.step()
    head.step()
    state = pickle.loads(pickle.dumps(rescaler.state_dict()))
    assert [part["waiting"] for part in state["optimizers"]] == [1, 2]

    other, resumed, body_too, head_too = set_up()
    resumed.load_state_dict(state)
    assert resumed.state_dict() == state
    resumed.attach(body_too)
    resumed.attach(head_too)
    assert resumed.state_dict() == state
    for optimizer in (body, head, body_too, head_too):
        optimizer.step()
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), other.parameters(), strict=True))
    assert norms_of(model)[2] < 0.9 * start[2], "the head has had three steps"
    with pytest.raises(swr.StateError, match="knows 1 optimizers, 2 are attached"):
        resumed.load_state_dict({**state, "optimizers": state["optimizers"][:1]})


def test_a_new_optimizer_for_every_task_is_not_kept_alive():
    model, rescaler = doubled()
    old = torch.optim.Adam(model.parameters())
    rescaler.attach(old)
    train(model, old, 1)
    gone = weakref.ref(old)
    del old
    gc.collect()
    assert gone() is None
    new = torch.optim.Adam(model.parameters())
    rescaler.attach(new)
    train(model, new, 2)
    assert [part["steps"] for part in rescaler.state_dict()["optimizers"]] == [3]


def test_a_parameter_group_that_comes_later_is_followed_too():
    model, rescaler = doubled(on_lr_decay="follow")
    optimizer = torch.optim.SGD(model[0].parameters(), lr=0.0)
    rescaler.attach(optimizer)
    optimizer.step()
    optimizer.add_param_group({"params": model[2:].parameters(), "lr": 1e-9})
    optimizer.step()
    start = norms_of(model)
    optimizer.param_groups[1]["lr"] = 5e-10
    optimizer.step()
    moved = 1 - norms_of(model) / start
    assert float(moved[1]) == pytest.approx(float(moved[2]))
    assert 0 < float(moved[1]) < 0.6 * float(moved[0])


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda thing: pickle.loads(pickle.dumps(thing))])
def test_a_copied_optimizer_warns_at_its_first_step_that_nothing_acts(duplicate):
    model, rescaler = doubled()
    optimizer = torch.optim.Adam(model.parameters())
    rescaler.attach(optimizer)
    train(model, optimizer, 1)
    model_too, optimizer_too, rescaler_too = duplicate((model, optimizer, rescaler))
    with pytest.warns(swr.AttachWarning, match=r"copying and unpickling drop hooks.*attach\(\) it to this optimizer"):
        train(model_too, optimizer_too, 1)
    train(model_too, optimizer_too, 1)  # said once
    assert rescaler_too.state_dict()["optimizers"][0]["steps"] == 1

    rescaler_too.attach(optimizer_too)  # the way out
    train(model_too, optimizer_too, 1)
    assert rescaler_too.state_dict()["optimizers"][0]["steps"] == 2
    assert rescaler.state_dict()["optimizers"][0]["steps"] == 1, "the original is another one"


def test_a_copy_that_is_attached_at_once_goes_on_exactly_as_the_original():
    model, rescaler = doubled()
    optimizer = torch.optim.Adam(model.parameters())
    rescaler.attach(optimizer)
    train(model, optimizer, 3)
    model_too, optimizer_too, rescaler_too = copy.deepcopy((model, optimizer, rescaler))
    rescaler_too.attach(optimizer_too)
    for net, its_optimizer in ((model, optimizer), (model_too, optimizer_too)):
        torch.manual_seed(5)
        train(net, its_optimizer, 3)
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), model_too.parameters(), strict=True))
    assert rescaler.state_dict() == rescaler_too.state_dict()


def test_the_mark_that_finds_copies_stays_out_of_checkpoints_and_goes_with_the_attachment():
    model, rescaler = doubled()
    optimizer = torch.optim.Adam(model.parameters())
    defaults, saved = dict(optimizer.defaults), optimizer.state_dict()
    first, second = rescaler.attach(optimizer), methods.build("l2", model, coefficient=0.1).attach(optimizer)
    assert optimizer.state_dict() == saved
    first.remove()
    assert optimizer.defaults != defaults
    second.remove()
    assert optimizer.defaults == defaults
    fresh = copy.deepcopy(optimizer)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fresh.step()


def test_attaching_to_a_copied_optimizer_of_the_old_model_is_explained():
    model, rescaler = doubled()
    optimizer = copy.deepcopy(torch.optim.Adam(model.parameters()))
    with pytest.raises(swr.AttachError, match=r"none of this model's parameters.*a copied or unpickled optimizer holds copies"):
        rescaler.attach(optimizer)


def test_what_is_added_to_the_gradients_survives_a_closure_that_makes_them_inside_the_step():
    def trained(with_closure):
        model = make(mlp)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
        methods.build("l2", model, coefficient=0.3).attach(optimizer)
        for _ in range(3):

            def closure():
                optimizer.zero_grad()
                loss = model(torch.ones(2, 12, dtype=torch.float64)).square().mean()
                loss.backward()
                return loss

            if with_closure == "named":
                optimizer.step(closure=closure)
            elif with_closure:
                optimizer.step(closure)
            else:
                closure()
                optimizer.step()
        return torch.cat([p.detach().flatten() for p in model.parameters()])

    assert torch.equal(trained(True), trained(False))
    assert torch.equal(trained("named"), trained(False))


def test_two_optimizers_that_were_detached_go_on_where_they_were():
    model, rescaler = doubled(every=3)
    body, head = still(model[:4]), still(model[4])
    handles = [rescaler.attach(body), rescaler.attach(head)]
    body.step()
    head.step()
    head.step()
    state = rescaler.state_dict()
    for handle in handles:
        handle.remove()
    rescaler.attach(body)
    rescaler.attach(head)
    assert rescaler.state_dict() == state


def test_skipped_steps_between_two_rescales_weaken_the_next_one():
    model, rescaler = doubled(every=4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0, fused=True)
    rescaler.attach(optimizer)
    start = norms_of(model)
    for skipped in (0.0, 1.0, 0.0, 1.0):
        optimizer.found_inf = torch.tensor(skipped)
        optimizer.step()
    torch.testing.assert_close(norms_of(model), start * (1 + 0.9**2) / 2)
    assert rescaler.state_dict()["optimizers"][0]["steps"] == 2


def test_norms_and_scalers_can_be_asked_for():
    model, rescaler = doubled()
    names = ["0.weight", "2.weight", "4.weight"]
    assert rescaler.norms() == pytest.approx(dict(zip(names, norms_of(model).tolist(), strict=True)))
    assert rescaler.scalers() == pytest.approx(dict.fromkeys(names, 0.95))
    rescaler.rebase()
    assert rescaler.scalers() == pytest.approx(dict.fromkeys(names, 1.0))


def test_a_step_by_hand_finds_parameters_that_were_replaced():
    model, rescaler = doubled()
    model[0].weight = nn.Parameter(model[0].weight.detach().clone())
    start = norms_of(model)
    rescaler.step()
    torch.testing.assert_close(norms_of(model), 0.95 * start)


def compiled_steps(attached):
    """Graph breaks, graphs, captured operators and compiled frames of a compiled model and optimizer over some steps."""
    torch._dynamo.reset()
    counters = torch._dynamo.utils.counters
    model = make(mlp)
    rescaler = swr.SoftWeightRescaling(model, inputs_of(model), coefficient=0.1)
    wrapped = torch.compile(model, backend="aot_eager")
    optimizer = torch.optim.Adam(wrapped.parameters(), lr=torch.tensor(1e-3))
    if attached:
        rescaler.attach(optimizer)
    counters.clear()

    @torch.compile(backend="aot_eager")
    def step():
        optimizer.step()

    for _ in range(6):
        optimizer.zero_grad()
        wrapped(inputs_of(model)).square().mean().backward()
        step()
    steps = rescaler.state_dict()["optimizers"][0]["steps"]
    return steps, sum(counters["graph_break"].values()), dict(counters["stats"]), dict(counters["recompiles"])


def test_a_compiled_model_and_step_have_the_same_graphs_with_and_without():
    steps, breaks, *without = compiled_steps(attached=False)
    assert steps == 0
    steps, breaks_too, *with_rescaler = compiled_steps(attached=True)
    assert steps == 6
    assert with_rescaler == without
    assert breaks_too <= breaks
