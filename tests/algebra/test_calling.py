"""How rules are called: by the schema's names or in its order; what a rule overlooks is held; what is no form is refused."""

import itertools

import pytest
import torch
from torch import nn

import swr
from swr.algebra.forms import ANY, Form
from swr.algebra.rules.rulebook import RULES


@torch.library.custom_op("swrcalls::gated", mutates_args=())
def gated(x: torch.Tensor, gate: torch.Tensor, power: int = 1) -> torch.Tensor:
    return x * gate**power


@gated.register_fake
def _(x, gate, power=1):
    return torch.empty_like(x)


@torch.library.custom_op("swrcalls::both", mutates_args=())
def both(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return 2 * x, x**2


@both.register_fake
def _(x):
    return torch.empty_like(x), torch.empty_like(x)


class Gated(nn.Module):
    """Two layers that meet in an operator of our own."""

    def __init__(self, **options):
        super().__init__()
        self.value, self.gate, self.options = nn.Linear(4, 4), nn.Linear(4, 4), options

    def forward(self, x):
        return gated(self.value(x), self.gate(x), **self.options)


class Both(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        twice, square = both(self.fc(x))
        return twice * twice + square


@pytest.fixture
def teach(monkeypatch):
    """Teaches a rule for the time of one test."""

    def register(operator, function):
        monkeypatch.setitem(RULES, str(operator), function)

    return register


GATED, BOTH = torch.ops.swrcalls.gated.default, torch.ops.swrcalls.both.default


def plan_of(model):
    torch.manual_seed(0)
    x = torch.randn(3, 4, dtype=torch.float64)
    model = model.double()
    plan = swr.analyze(model, x)
    return plan, plan.verify(model, x)


def test_a_rule_that_forgets_its_return_is_refused_by_name(teach):
    def forgetful(flow, x, gate):
        flow.product(x, gate)

    teach(GATED, forgetful)
    with pytest.raises(swr.PlanError, match=r"forgetful.*test_calling.*gated.*returned None.*return missing"):
        plan_of(Gated())


@pytest.mark.parametrize("result", [0, "x", [], (ANY,), (ANY, ANY, ANY), (Form(), None)], ids=repr)
def test_what_is_no_form_or_has_the_wrong_number_of_outputs_is_refused(teach, result):
    teach(BOTH, lambda flow, x: result)
    with pytest.raises(swr.PlanError, match=r"both returned .* one form for all outputs, or a tuple of 2"):
        plan_of(Both())


def test_several_outputs_have_a_form_each(teach):
    teach(BOTH, lambda flow, x: (x.form, flow.power(x, 2)))
    plan, deviation = plan_of(Both())
    assert plan.free == ("fc.weight",)
    assert deviation < 1e-12


@pytest.mark.parametrize("order", list(itertools.permutations(["x", "gate", "power"])), ids=" ".join)
def test_a_rule_with_the_names_of_the_schema_gets_each_argument_by_name(teach, order):
    rule = eval(f"lambda flow, {', '.join(order)}: flow.product(x, v(flow.power(gate, power)))", {"v": swr.algebra.forms.Value})
    teach(GATED, rule)
    for options in ({}, {"power": 2}):
        plan, deviation = plan_of(Gated(**options))
        assert plan.free == ("value.weight", "gate.weight")
        assert plan.output.terms == {"value.weight": 1.0, "gate.weight": float(options.get("power", 1))}
        assert deviation < 1e-12


def test_a_rule_with_other_names_gets_the_arguments_in_the_order_of_the_schema(teach):
    seen = []

    def rule(flow, first, second, third):
        seen.append(third)
        return flow.product(first, *[second] * third)

    teach(GATED, rule)
    for options in ({}, {"power": 2}):
        plan, deviation = plan_of(Gated(**options))
        assert plan.free == ("value.weight", "gate.weight")
        assert deviation < 1e-12
    assert seen == [1, 2]


def test_a_rule_may_take_all_arguments_as_they_come(teach):
    teach(GATED, lambda flow, *args: flow.product(*args))
    assert plan_of(Gated())[0].free == ("value.weight", "gate.weight")
    teach(GATED, lambda flow, **arguments: flow.product(arguments["x"], arguments["gate"]))
    assert plan_of(Gated())[0].free == ("value.weight", "gate.weight")


@pytest.mark.parametrize(
    "rule", [lambda flow, x: flow.same(x), lambda flow, first: flow.same(first)], ids=["named", "in order"]
)
def test_a_tensor_that_a_rule_overlooks_is_held(teach, rule):
    teach(GATED, rule)
    plan, deviation = plan_of(Gated())
    assert plan.free == ("value.weight",)
    assert plan.held == ("gate.weight",)
    assert deviation < 1e-12


def test_a_rule_for_more_arguments_than_there_are_is_refused_by_name(teach):
    def greedy(flow, a, b, c, d):
        return flow.same(a)

    teach(GATED, greedy)
    with pytest.raises(swr.PlanError, match=r"greedy.*takes 4 arguments.*has 3: x, gate, power"):
        plan_of(Gated())


WITHOUT_A_SUBJECT = ("repeat_interleave.Tensor", "einsum.sublist", "eq.Tensor_list", "ne.Tensor_list")


def test_every_rule_of_ours_takes_its_arguments_by_name():
    """No overload of an operator that tensors go into falls back to the order of its arguments."""
    from swr.algebra.calling import _match

    wrong = []
    for name, rule in list(RULES.items()):
        namespace, _, operator = name.partition(".")
        if namespace != "aten":
            continue
        operator, _, overload = operator.partition(".")
        packet = getattr(torch.ops.aten, operator, None)
        if packet is None:  # of another version of torch
            continue
        for each in [overload] if overload else packet.overloads():
            target = getattr(packet, each)
            arguments = target._schema.arguments
            if not overload and f"{name}.{each}" in RULES:
                continue
            tensors = any("Tensor" in str(a.type) for a in arguments)
            written = any(a.alias_info is not None and a.alias_info.is_write for a in arguments)
            plain = arguments and str(arguments[0].type) in ("Tensor", "List[Tensor]")
            if tensors and plain and not written and f"{operator}.{each}" not in WITHOUT_A_SUBJECT:
                positions, _, _ = _match(rule, target, tuple(a.name for a in arguments))
                wrong += [f"{name}.{each}"] if positions else []
    assert wrong == []
