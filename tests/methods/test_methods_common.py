"""What every method must do and must not do, from one table."""

import copy
import io

import pytest
import torch
import torch.nn.functional as F

from swr import methods
from swr.errors import AttachError, OptionError, StateError

from .methods_table import BY_NAME, CASES, MODELS, SPLIT, Case, Loop, changed, same


def test_every_method_of_the_registry_is_in_the_table():
    assert {case.name for case in CASES} == set(methods.names())


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("case", CASES, ids=BY_NAME)
def test_works_on_every_model_and_changes_what_it_claims_to(case: Case, model: str):
    loop, plain = Loop(model, case.name, case.hyper), Loop(model, "vanilla", {})
    loop.train(0, 2)
    plain.train(0, 2)
    assert same(loop.tensors(), plain.tensors()) != case.steps
    before = loop.tensors()
    loop.new_task()
    assert bool(changed(before, loop.tensors())) == case.tasks
    loop.train(2, 4)
    assert all(torch.isfinite(tensor).all() for tensor in loop.tensors().values())


@pytest.mark.parametrize("case", CASES, ids=BY_NAME)
def test_resumes_exactly(case: Case):
    loop = Loop("cnnbn", case.name, case.hyper)
    loop.train(0, 3)
    loop.new_task()
    loop.train(3, 5)
    file = io.BytesIO()
    torch.save([loop.model.state_dict(), loop.optimizer.state_dict(), loop.method.state_dict()], file)
    file.seek(0)
    model, optimizer, method = torch.load(file, weights_only=True)
    again = Loop("cnnbn", case.name, case.hyper, seed=1)
    again.model.load_state_dict(model)
    again.optimizer.load_state_dict(optimizer)
    again.method.load_state_dict(method)
    for one in (loop, again):
        one.train(5, 7)
        one.new_task()
        one.train(7, 9)
        one.new_task()
        one.train(9, 11)
    assert same(loop.tensors(), again.tensors())


@pytest.mark.parametrize("model", ["mlp", "cnnbn"])
@pytest.mark.parametrize("case", [*CASES, *SPLIT], ids=str)
def test_an_inert_setting_is_vanilla_bit_for_bit(case: Case, model: str):
    if "features" in case.hyper:  # an MLP has none
        model = "cnn"
    loop = Loop(model, case.name, case.hyper if case.inert is None else case.inert)
    plain = Loop(model, "vanilla", {})
    for one in (loop, plain):
        one.train(0, 4)
        if case.inert is not None:
            one.new_task()
        one.train(4, 6)
    assert same(loop.tensors(), plain.tensors())


@pytest.mark.parametrize("case", CASES, ids=BY_NAME)
def test_leaves_global_random_numbers_parameter_objects_and_optimizer_groups_alone(case: Case):
    loop = Loop("cnnbn", case.name, case.hyper)
    parameters, groups = [id(p) for p in loop.model.parameters()], copy.deepcopy(loop.optimizer.state_dict()["param_groups"])
    state = torch.get_rng_state()
    loop.train(0, 2)
    loop.new_task()
    loop.train(2, 4)
    assert torch.equal(torch.get_rng_state(), state)
    assert [id(p) for p in loop.model.parameters()] == parameters
    assert loop.optimizer.state_dict()["param_groups"] == groups


@pytest.mark.parametrize("case", CASES, ids=BY_NAME)
def test_a_closed_method_does_nothing_any_more(case: Case):
    loop, plain = Loop("cnn", case.name, case.hyper), Loop("cnn", "vanilla", {})
    loop.method.close()
    assert not loop.method.attached
    for one in (loop, plain):
        for number in range(3):
            loss = F.cross_entropy(one.model(one.batch(number)[0]), one.batch(number)[1])
            one.optimizer.zero_grad()
            loss.backward()
            one.optimizer.step()
    assert same(loop.tensors(), plain.tensors())


@pytest.mark.parametrize("case", CASES, ids=BY_NAME)
def test_attaches_once_and_only_to_its_own_optimizer(case: Case):
    loop = Loop("mlp", case.name, case.hyper, attach=False)
    with pytest.raises(AttachError, match="none of this model's parameters"):
        loop.method.attach(torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1))
    loop.method.attach(loop.optimizer)
    with pytest.raises(AttachError, match="already attached"):
        loop.method.attach(loop.optimizer)


@pytest.mark.parametrize("case", CASES, ids=BY_NAME)
def test_refuses_the_state_of_something_else(case: Case):
    loop, other = Loop("mlp", case.name, case.hyper), Loop("cnn", case.name, case.hyper)
    with pytest.raises(StateError, match="not the state of"):
        loop.method.load_state_dict({"generator": torch.get_rng_state(), "else": 1})
    if len(other.method.state_dict()) > 1:
        with pytest.raises(StateError, match="another model"):
            loop.method.load_state_dict(other.method.state_dict())


@pytest.mark.parametrize("case", [case for case in CASES if case.hyper], ids=str)
@pytest.mark.parametrize("value", [-0.1, float("nan"), True, "a"])
def test_refuses_coefficients_out_of_range(case: Case, value: object):
    loop = Loop("mlp", "vanilla", {})
    with pytest.raises(OptionError, match="must be a number"):
        methods.build(case.name, loop.model, torch.zeros(2, 1, 8, 8), coefficient=value)


def test_a_wrong_name_gets_the_nearest_guess_and_all_names():
    with pytest.raises(
        methods.UnknownName, match=r"no method 'l2_init': did you mean l2-init\? known are vanilla, l2, l2-init"
    ):
        methods.find("l2_init")
    with pytest.raises(methods.UnknownName, match=r"no method 'zzz': known are"):
        methods.build("zzz", torch.nn.Linear(1, 1))


def test_a_wrong_option_names_those_there_are():
    with pytest.raises(OptionError, match=r"l2: .*lamda.*; its options are coefficient, seed"):
        methods.build("l2", torch.nn.Linear(1, 1), coefficient=1.0, lamda=1.0)
