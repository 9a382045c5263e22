"""What every method must do and must not do, from one table."""

import copy
import io
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from swr import methods
from swr.errors import AttachError, ModelError, OptionError, StateError

from .methods_table import BY_NAME, CASES, COMPOSED, MODELS, ODD, SPLIT, Case, Loop, changed, same

LAYOUTS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}


def test_every_method_of_the_registry_is_in_the_table_once():
    assert sorted(case.name for case in CASES) == sorted(methods.names())


@pytest.mark.parametrize("case", CASES, ids=BY_NAME)
def test_has_a_card(case: Case):
    kind = methods.find(case.name)
    assert kind.title
    assert kind.__doc__
    assert "coefficient" not in case.hyper or "coefficient" in kind.symbols


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


@pytest.mark.parametrize("case", [*CASES, *COMPOSED], ids=str)
def test_resumes_exactly(case: Case):
    loop = Loop("cnnbn", case.name, case.hyper)
    loop.train(0, 3)
    loop.new_task()
    loop.train(3, 6)
    file = io.BytesIO()
    torch.save([loop.model.state_dict(), loop.optimizer.state_dict(), loop.method.state_dict()], file)
    file.seek(0)
    model, optimizer, method = torch.load(file, weights_only=True)
    again = Loop("cnnbn", case.name, case.hyper, seed=1)
    assert not alike(again.method.state_dict(), method)
    again.model.load_state_dict(model)
    again.optimizer.load_state_dict(optimizer)
    again.method.load_state_dict(method)
    assert alike(again.method.state_dict(), method)
    kept = copy.deepcopy(method)
    for one in (loop, again):
        one.train(6, 16)
        one.new_task()
        one.train(16, 21)
        one.new_task()
        one.train(21, 26)
    assert same(loop.tensors(), again.tensors())
    assert alike(loop.method.state_dict(), again.method.state_dict())
    assert alike(method, kept)  # what was loaded stays as it is


@pytest.mark.parametrize("model", ["mlp", "cnnbn"])
@pytest.mark.parametrize("case", [*CASES, *SPLIT], ids=str)
def test_an_inert_setting_is_vanilla_bit_for_bit(case: Case, model: str):
    if case.inert is None and case.steps:
        pytest.skip("has no inert setting and acts at steps")
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


AT_NEW_TASKS = [case for case in CASES if methods.find(case.name).only_at_new_task]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("case", AT_NEW_TASKS, ids=str)
def test_what_acts_at_a_new_task_only_is_vanilla_until_then_bit_for_bit(case: Case, model: str):
    ends = []
    for name, hyper in (("vanilla", {}), (case.name, case.hyper)):
        loop = Loop(model, name, hyper)
        built = copy.deepcopy(loop.method.state_dict())
        torch.manual_seed(1)
        loop.train(0, 4)
        assert alike(loop.method.state_dict(), built)
        ends.append([loop.model.state_dict(), loop.optimizer.state_dict(), torch.get_rng_state()])
    assert alike(*ends)


def test_acting_at_a_new_task_only_is_said_by_every_class_for_itself():
    class Noisy(methods.Vanilla):
        def step(self) -> None:
            """Something else."""

    assert methods.Vanilla.only_at_new_task
    assert not Noisy.only_at_new_task
    assert not methods.find("shrink-perturb+head-reset").only_at_new_task
    assert not any(methods.find(case.name).only_at_new_task for case in CASES if case.steps)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("case", CASES, ids=BY_NAME)
def test_writes_reach_the_layers_and_nothing_but_what_it_touches(case: Case, layout: str):
    options = {"adam": False, "layout": LAYOUTS[layout]}
    loop, plain = Loop("cnnbn", case.name, case.hyper, **options), Loop("cnnbn", "vanilla", {}, **options)
    for one in (loop, plain):
        one.train(0, 1)
    assert loop.kinds(changed(plain.tensors(), loop.tensors())) <= case.touches  # of a first step, no gradient knows yet
    loop.train(1, 3)
    before = loop.tensors()
    loop.new_task()
    moved = changed(before, loop.tensors())
    assert bool(moved) == case.tasks
    assert loop.kinds(moved) <= case.touches
    for p in loop.model.parameters():
        assert p.is_contiguous(memory_format=LAYOUTS[layout]) or p.ndim != 4


@pytest.mark.parametrize("case", [case for case in CASES if case.tasks], ids=str)
def test_a_new_task_leaves_the_moments_of_untouched_entries_alone(case: Case):
    loop = Loop("cnnbn", case.name, case.hyper)
    loop.train(0, 3)
    before, moments = loop.tensors(), copy.deepcopy(loop.optimizer.state_dict()["state"])
    loop.new_task()
    after, parameters = loop.tensors(), list(loop.model.named_parameters())
    for i, (name, p) in enumerate(parameters):
        untouched = before[name] == after[name]
        if untouched.any():
            for key in ("exp_avg", "exp_avg_sq"):
                assert torch.equal(loop.optimizer.state[p][key][untouched], moments[i][key][untouched]), name


@pytest.mark.filterwarnings("ignore:.*the norm was zero or not finite")  # SWR says that a zero weight has no anchor
@pytest.mark.parametrize("model", ODD)
@pytest.mark.parametrize("case", CASES, ids=BY_NAME)
def test_survives_odd_networks(case: Case, model: str):
    if model in case.refuses:
        with pytest.raises(ModelError):
            Loop(model, case.name, case.hyper)
        return
    loop = Loop(model, case.name, case.hyper)
    parameters = {name: id(p) for name, p in loop.model.named_parameters(remove_duplicate=False)}
    loop.new_task()
    loop.train(0, 2)
    loop.new_task()
    loop.train(2, 5)
    assert {name: id(p) for name, p in loop.model.named_parameters(remove_duplicate=False)} == parameters
    for name, tensor in loop.tensors().items():
        assert torch.isfinite(tensor).all(), name


@pytest.mark.parametrize("case", [*CASES, *COMPOSED], ids=str)
def test_leaves_global_random_numbers_parameter_objects_and_optimizer_groups_alone(case: Case):
    loop = Loop("cnnbn", case.name, case.hyper)
    parameters, groups = [id(p) for p in loop.model.parameters()], copy.deepcopy(loop.optimizer.state_dict()["param_groups"])
    storage = [p.data_ptr() for p in loop.model.parameters()]
    modes = [module.training for module in loop.model.modules()]
    state = torch.get_rng_state()
    loop.train(0, 2)
    loop.new_task()
    assert [module.training for module in loop.model.modules()] == modes
    loop.train(2, 4)
    assert torch.equal(torch.get_rng_state(), state)
    assert [id(p) for p in loop.model.parameters()] == parameters
    assert [p.data_ptr() for p in loop.model.parameters()] == storage
    assert loop.optimizer.state_dict()["param_groups"] == groups


@pytest.mark.parametrize("case", [*CASES, *COMPOSED], ids=str)
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
    for module in loop.model.modules():
        assert not module._forward_hooks
        assert not module._forward_pre_hooks


@pytest.mark.parametrize("case", [*CASES, *COMPOSED], ids=str)
def test_attaches_once_and_only_to_its_own_optimizer(case: Case):
    loop = Loop("mlp", case.name, case.hyper, attach=False)
    with pytest.raises(AttachError, match="none of this model's parameters"):
        loop.method.attach(torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1))
    loop.method.attach(loop.optimizer)
    with pytest.raises(AttachError, match="already attached"):
        loop.method.attach(loop.optimizer)


@pytest.mark.parametrize("case", [*CASES, *COMPOSED], ids=str)
def test_refuses_the_state_of_something_else(case: Case):
    loop, other = Loop("mlp", case.name, case.hyper), Loop("cnn", case.name, case.hyper)
    with pytest.raises(StateError, match="not the state of"):
        loop.method.load_state_dict({"generator": torch.get_rng_state(), "else": 1})
    state = other.method.state_dict()
    if any(has_tensors(value) for key, value in state.items() if key != "generator"):
        with pytest.raises(StateError, match="another model"):
            loop.method.load_state_dict(state)


@pytest.mark.parametrize("case", [case for case in CASES if methods.find(case.name).symbols], ids=str)
@pytest.mark.parametrize("value", [float("nan"), True, "a"])
def test_refuses_hyper_parameters_that_are_no_numbers(case: Case, value: object):
    loop = Loop("cnn", "vanilla", {})
    for keyword in methods.find(case.name).symbols:
        with pytest.raises(OptionError):
            methods.build(case.name, loop.model, torch.zeros(2, *loop.shape), **{**case.hyper, keyword: value})


@pytest.mark.parametrize("case", [case for case in CASES if "coefficient" in case.hyper], ids=str)
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


def alike(one: Any, other: Any) -> bool:
    """Equality of nested states."""
    if isinstance(one, Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(alike, one, other))
    return bool(one == other)


def has_tensors(value: Any) -> bool:
    if isinstance(value, (dict, list, tuple)):
        return any(map(has_tensors, value.values() if isinstance(value, dict) else value))
    return isinstance(value, Tensor)
