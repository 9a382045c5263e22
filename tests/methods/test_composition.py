"""Several methods as one: the order of their moments, one attachment, one state, and what is refused."""

import copy
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from swr import methods
from swr.errors import AttachError, OptionError, StateError
from swr.hooks import handles_of

from .anneal_helpers import entries, vector
from .methods_table import CASES, Case, Loop, same

X = torch.zeros(2, 1, 8, 8)


class Recorder(methods.Method):
    """Writes down when it is called."""

    called: list[str]

    def note(self, what: str) -> None:
        self.called.append(f"{self.title} {what}")

    def penalty(self) -> Tensor | None:
        self.note("penalty")
        return next(self.model.parameters()).square().sum()

    def before_step(self, optimizer: Any = None) -> None:
        self.note("before")

    def step(self) -> None:
        self.note("step")

    def new_task(self, batches: Any = None, loss_fn: Any = None) -> None:
        self.note(f"task {len(list(batches))}" if batches is not None else "task")

    def close(self) -> None:
        super().close()
        self.note("close")


class A(Recorder):
    title = "a"


class B(Recorder):
    title = "b"


class Averages(Recorder):
    title = "last"
    turn = "last"


class ReadsTheUpdate(Recorder):
    title = "first"
    turn = "first"


def recorded(*kinds: type[Recorder]) -> tuple[methods.Composition, torch.optim.Optimizer, list[str]]:
    model, called = nn.Linear(2, 1), []
    built = [kind(model) for kind in kinds]
    for method in built:
        method.called = called
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.ones(1, 2)).sum().backward()
    return methods.compose(*built), optimizer, called


class TestMoments:
    def test_penalties_come_first_and_everything_is_in_the_order_of_the_parts(self):
        method, optimizer, called = recorded(A, B)
        method.attach(optimizer)
        optimizer.step()
        assert called == ["a penalty", "b penalty", "a before", "b before", "a step", "b step"]
        called.clear()
        method.new_task()
        method.close()
        assert called == ["a task", "b task", "b close", "a close"]

    def test_the_same_by_hand(self):
        method, _, called = recorded(A, B)
        assert method.penalty().item() == pytest.approx(2 * next(method.model.parameters()).square().sum().item())
        method.before_step()
        method.step()
        assert called == ["a penalty", "b penalty", "a before", "b before", "a step", "b step"]

    def test_what_reads_the_update_acts_first_and_what_averages_last(self):
        method, optimizer, called = recorded(Averages, A, ReadsTheUpdate)
        method.attach(optimizer, penalty="loss")
        optimizer.step()
        assert called == [f"{who} {when}" for when in ("before", "step") for who in ("first", "a", "last")]
        assert method.title == "last + a + first"  # as it was named

    def test_every_part_sees_all_of_the_data_of_a_new_task(self):
        method, _, called = recorded(A, B)
        method.new_task(iter([(1, 2), (3, 4)]))
        assert called == ["a task 2", "b task 2"]

    def test_a_closure_grows_by_all_penalties(self):
        method, optimizer, called = recorded(A, B)
        method.attach(optimizer)
        weight = next(method.model.parameters())
        expected = 3.0 + 2 * weight.detach().square().sum().item()
        assert optimizer.step(lambda: torch.tensor(3.0)).item() == pytest.approx(expected)
        assert called[:2] == ["a penalty", "b penalty"]

    @pytest.mark.parametrize("order", [(0, 1), (1, 0)])
    def test_the_gradient_of_a_penalty_is_that_before_the_decay(self, order: tuple[int, int]):
        layer = vector(1.0)
        parts = [methods.WeightDecay(layer, coefficient=1.0), methods.L2(layer, coefficient=2.0)]
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
        methods.compose(*(parts[i] for i in order)).attach(optimizer)
        layer.weight.grad = torch.zeros(1, 1)
        optimizer.step()
        assert entries(layer) == [0.7]  # 1 - 0.1 of the decay, - 0.1 * 2 * 1 of the penalty

    @pytest.mark.parametrize("name", ["swr+ema", "ema+swr"])
    def test_weights_are_rescaled_and_then_averaged(self, name: str):
        layer = vector(3.0, 4.0)
        method = methods.build(name, layer, torch.ones(1, 2), coefficient=0.5)
        optimizer = torch.optim.SGD(layer.parameters(), lr=1.0)
        method.attach(optimizer)
        layer.weight.grad = torch.tensor([[-3.0, -4.0]])
        optimizer.step()
        assert entries(layer) == [4.5, 6.0]  # (6, 8), half way back to the norm 5
        average = method.state_dict()["parts"]["ema"]["average"]["weight"]
        assert average.flatten().tolist() == pytest.approx([0.3 + 0.9 * 4.5, 0.4 + 0.9 * 6.0])


class TestAttaching:
    def test_remove_undoes_all_of_it(self):
        loop = Loop("mlp", "swr+l2+ema", {"swr.coefficient": 0.1, "l2.coefficient": 0.1}, attach=False)
        plain = Loop("mlp", "vanilla", {})
        handle = loop.method.attach(loop.optimizer)
        assert loop.method.attached
        assert len(handles_of(loop.optimizer)) == 4
        handle.remove()
        assert not loop.method.attached
        assert not handles_of(loop.optimizer)
        assert not any(part.attached for part in loop.method.parts.values())
        loop.method._penalised = []  # the loop adds the penalty of a method that is not attached
        for one in (loop, plain):
            one.train(0, 3)
        assert same(loop.tensors(), plain.tensors())
        again = loop.method.attach(loop.optimizer)
        assert again.active

    def test_a_part_that_refuses_leaves_nothing_behind(self):
        loop = Loop("mlp", "l2+swr", {"swr.coefficient": 0.1, "l2.coefficient": 0.1}, attach=False)
        other = methods.SWR(loop.model, X, coefficient=0.1)
        first = other.attach(loop.optimizer)
        with pytest.raises(AttachError, match="another SoftWeightRescaling"):
            loop.method.attach(loop.optimizer)
        assert handles_of(loop.optimizer) == [first]
        assert not loop.method.attached

    def test_an_attached_method_cannot_become_a_part(self):
        layer = vector(1.0)
        one = methods.MaxNorm(layer)
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
        one.attach(optimizer)
        with pytest.raises(AttachError, match="max-norm is attached to an optimizer"):
            methods.compose(one, methods.EMA(layer))

    def test_a_part_on_its_own_is_a_method_like_any_other(self):
        layer = vector(1.0)
        part = methods.L2(layer, coefficient=2.0)
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
        methods.compose(part, methods.EMA(layer)).attach(optimizer).remove()
        part.attach(optimizer)
        layer.weight.grad = torch.zeros(1, 1)
        optimizer.step()
        assert entries(layer) == [0.8]

    def test_the_penalty_cannot_be_counted_twice(self):
        loop = Loop("mlp", "l2+ema", {"coefficient": 0.1})
        with pytest.raises(AttachError, match="twice"):
            loop.method.penalty()


ALONE = [case for case in CASES if not methods.find(case.name).owns & methods.EMA.owns]


@pytest.mark.parametrize("case", ALONE, ids=str)
def test_a_method_beside_an_average_trains_exactly_as_alone(case: Case):
    alone, beside = Loop("mlp", case.name, case.hyper), Loop("mlp", f"{case.name}+ema", case.hyper)
    for one in (alone, beside):
        one.train(0, 3)
        one.new_task()
        one.train(3, 5)
    assert same(alone.tensors(), beside.tensors())
    live = alone.model.eval()(alone.batch(0)[0])
    assert torch.equal(beside.model.train()(beside.batch(0)[0]), live)
    assert not torch.equal(beside.model.eval()(beside.batch(0)[0]), live)


def test_a_penalty_in_the_loss_is_the_same_within_rounding():
    found = []
    for penalty in ("gradients", "loss"):
        loop = Loop("mlp", "parseval+l2+swr", {f"{part}.coefficient": 0.1 for part in ("parseval", "l2", "swr")}, attach=False)
        loop.method.attach(loop.optimizer, penalty=penalty)
        for number in range(3):
            inputs, labels = loop.batch(number)
            loss = nn.functional.cross_entropy(loop.model(inputs), labels)
            loss = loss if penalty == "gradients" else loss + loop.method.penalty()
            loop.optimizer.zero_grad()
            loss.backward()
            loop.optimizer.step()
        found.append(loop.tensors())
    for name in found[0]:
        assert torch.allclose(found[0][name], found[1][name], atol=1e-5), name


class TestSeeds:
    def test_the_first_part_draws_what_it_draws_alone_and_the_others_something_else(self):
        model = nn.Linear(2, 1)
        both = methods.build("shrink-perturb+head-reset", model, coefficient=0.4, seed=3)
        drawn = [part.generator.initial_seed() for part in both.parts.values()]
        assert drawn[0] == 3
        assert len({*drawn, 4}) == 3
        again = methods.build("shrink-perturb+head-reset", model, coefficient=0.4, seed=3)
        assert [part.generator.initial_seed() for part in again.parts.values()] == drawn

    def test_a_part_can_have_a_seed_of_its_own(self):
        method = methods.build("shrink-perturb+ema", nn.Linear(2, 1), **{"coefficient": 0.4, "ema.seed": 9})
        assert method.parts["ema"].generator.initial_seed() == 9


class TestState:
    def test_is_nested_by_part(self):
        method = methods.build("swr+hare-tortoise", nn.Linear(2, 1), torch.ones(1, 2), coefficient=0.1)
        assert set(method.state_dict()) == {"generator", "parts"}
        assert set(method.state_dict()["parts"]) == {"swr", "hare-tortoise"}
        assert set(method.state_dict()["parts"]["hare-tortoise"]) == {"generator", "steps", "slow"}

    def test_a_copy_or_a_pickle_is_detached_and_keeps_the_parts(self):
        model = nn.Linear(2, 1)
        method = methods.build("ema+l2", model, coefficient=0.1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        method.attach(optimizer)
        for other in (copy.deepcopy(method), pickle.loads(pickle.dumps(method))):
            assert type(other) is type(method)
            assert list(other.parts) == ["l2", "ema"]
            assert other.parts["ema"].model is other.model is not model
            assert not other.attached
        assert method.attached

    def test_that_of_other_parts_is_refused(self):
        model = nn.Linear(2, 1)
        one = methods.build("l2+ema", model, coefficient=0.1)
        other = methods.build("l2+hare-tortoise", model, coefficient=0.1)
        with pytest.raises(StateError, match=r"the state of l2 \+ hare-tortoise, not of l2 \+ ema"):
            one.load_state_dict(other.state_dict())

    def test_the_order_of_the_names_does_not_matter(self):
        model = nn.Linear(2, 1)
        one, other = (methods.build(name, model, coefficient=0.1) for name in ("ema+l2", "l2+ema"))
        one.load_state_dict(copy.deepcopy(other.state_dict()))


class TestRefusals:
    @pytest.mark.parametrize(
        ("name", "reason"),
        [
            ("l2+l2", "l2 is in the composition twice"),
            ("swr+swr-reinit", "one is a variant of the other"),
            ("hare-tortoise+ema", "both decide which copy of the weights is evaluated"),
            ("full-reset+shrink-perturb", "both decide all weights at a new task"),
            (
                "l2+redo+continual-backprop",
                "redo and continual-backprop cannot be combined: both decide which units are recycled",
            ),
            ("nap+weight-normalisation", "both decide the norms of the weights"),
            ("hyperball+weight-decay", "both decide how weights decay apart from the gradient"),
            ("upgd+hyperball", "both decide how long an update is"),
        ],
    )
    def test_methods_that_contradict_each_other(self, name: str, reason: str):
        with pytest.raises(OptionError, match=reason):
            methods.find(name)

    def test_different_models(self):
        with pytest.raises(OptionError, match="different models"):
            methods.compose(methods.EMA(vector(1.0)), methods.MaxNorm(vector(1.0)))

    def test_one_method_is_no_composition(self):
        with pytest.raises(OptionError, match="at least two methods, found ema"):
            methods.compose(methods.EMA(vector(1.0)))

    def test_a_composition_within_another_is_taken_apart(self):
        layer = vector(1.0)
        inner = methods.compose(methods.MaxNorm(layer), methods.EMA(layer))
        method = methods.compose(inner, methods.L2(layer, coefficient=0.1))
        assert list(method.parts) == ["max-norm", "l2", "ema"]
        with pytest.raises(OptionError, match="ema is in the composition twice"):
            methods.compose(method, methods.EMA(layer))


class TestNames:
    def test_a_composed_name_is_found_and_described(self):
        assert methods.find("swr+hare-tortoise").title == "SWR + Hare & Tortoise"
        assert methods.describe("swr+hare-tortoise")[0] == "SWR + Hare & Tortoise"
        symbols = methods.describe("swr+l2")[1]
        assert symbols == methods.find("swr+l2").symbols
        assert symbols["swr.coefficient"] == "swr.λ"
        assert symbols["features"] == "λ_f"
        assert "coefficient" not in symbols

    @pytest.mark.parametrize("name", ["swr+zzz", "+l2", "l2+", "l2 + ema"])
    def test_a_part_that_is_no_method_is_named(self, name: str):
        for ask in (methods.find, methods.describe):
            with pytest.raises(methods.UnknownName, match="and NAME\\+NAME for several at once"):
                ask(name)

    def test_classes_of_ones_own_take_part(self):
        name = f"{__name__}:A+l2"
        assert methods.find(name).title == "a + L2"
        assert methods.describe(name)[0] == "a + L2"
        assert methods.describe("not.imported:Class+l2")[0] == "not.imported:Class + L2"
        assert methods.addressed(name, {"coefficient": 0.1, f"{__name__}:A.seed": 1}) == {
            "l2.coefficient": 0.1,
            f"{__name__}:A.seed": 1,
        }

    def test_a_registered_name_may_have_a_plus(self, monkeypatch):
        monkeypatch.setitem(methods.REGISTRY, "a+b", A)
        assert methods.parts("a+b") == ("a+b",)
        assert methods.find("a+b") is A
