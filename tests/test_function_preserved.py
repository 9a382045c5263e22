"""Every network of the zoo keeps its function, up to one constant, however its weights are rescaled."""

import copy
import math
import random
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

import swr
from swr.algebra.blocks import parameter_of, tensor_of
from zoo import ZOO, Network, without_epsilon
from zoo.probe import admissible, floating_outputs

EXACT = 1e-9
WITH_EPSILON = 1e-3


@dataclass(frozen=True)
class Case:
    """A network, a model of it that no test may change, and the plan that `swr.analyze` makes of it."""

    network: Network
    model: nn.Module
    plan: swr.ScalePlan
    before: nn.Module
    """The model as it was before the analysis."""
    generator_moved: bool

    @property
    def weights(self) -> list[str]:
        return [*self.plan.free, *self.plan.coupled, *self.plan.held]

    def copy(self) -> nn.Module:
        return copy.deepcopy(self.model)


@pytest.fixture(scope="module", params=ZOO, ids=lambda network: network.name)
def case(request: pytest.FixtureRequest) -> Case:
    network = request.param
    model = network.make()
    inputs, before = network.inputs(), copy.deepcopy(model)
    state = torch.random.get_rng_state()
    plan = swr.analyze(model, inputs)
    plan.verify(model, inputs)
    return Case(network, model, plan, before, not torch.equal(torch.random.get_rng_state(), state))


def random_scalers(names: list[str], seed: int = 0) -> dict[str, float]:
    uniform = random.Random(seed).uniform
    return {name: math.exp(uniform(-0.7, 0.7)) for name in names}


@torch.no_grad()
def outputs(model: nn.Module, inputs: tuple[Tensor, ...], mode: str) -> list[Tensor]:
    """Of a copy, since a forward in training mode changes buffers; random masks are the same every time."""
    model = copy.deepcopy(model).train(mode == "train")
    torch.manual_seed(1)
    return [leaf for leaf in pytree.tree_leaves(model(*inputs)) if isinstance(leaf, Tensor)]


def relative_deviation(after: Tensor, expected: Tensor) -> float:
    if not expected.is_floating_point():
        return 0.0 if torch.equal(after, expected) else math.inf
    return ((after - expected).abs().max() / expected.abs().max()).item()


def deviation_after_rescale(case: Case, model: nn.Module, plan: swr.ScalePlan, mode: str, seed: int) -> float:
    """The largest over all outputs, on inputs that the analysis has not seen."""
    rescaled = copy.deepcopy(model)
    constant = swr.rescale(rescaled, plan, random_scalers(case.weights, seed))
    torch.manual_seed(100 + seed)
    inputs = case.network.inputs()
    before, after = outputs(model, inputs, mode), outputs(rescaled, inputs, mode)
    assert all(out.isfinite().all() for out in before)
    return max(
        relative_deviation(new, constant * old if old.is_floating_point() else old)
        for old, new in zip(before, after, strict=True)
    )


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_function_is_multiplied_by_one_constant(case: Case, mode: str) -> None:
    model = without_epsilon(case.copy())
    assert deviation_after_rescale(case, model, case.plan, mode, seed=0) <= EXACT
    assert deviation_after_rescale(case, model, case.plan, mode, seed=1) <= EXACT


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_default_epsilon_disturbs_the_proportion_little(case: Case, mode: str) -> None:
    tolerance = WITH_EPSILON if case.network.normalised else EXACT
    assert deviation_after_rescale(case, case.model, case.plan, mode, seed=2) <= tolerance


def test_every_free_weight_gets_what_was_asked_and_held_ones_stay(case: Case) -> None:
    rescaled = case.copy()
    scalers = random_scalers(case.weights)
    constant = swr.rescale(rescaled, case.plan, scalers)
    before, after = case.model.state_dict(), rescaled.state_dict()
    for name in case.plan.free:
        torch.testing.assert_close(tensor_of(name, after), tensor_of(name, before) * scalers[name], rtol=1e-12, atol=0)
    for name in case.plan.coupled:
        assert not torch.equal(tensor_of(name, after), tensor_of(name, before)) or not tensor_of(name, before).any()
    for name, parameter in case.model.named_parameters():
        untouched = name in case.plan.held or name in case.plan.unused or not parameter.requires_grad
        assert not untouched or torch.equal(after[name], before[name]), name
    assert case.plan.free or case.plan.coupled
    assert (constant == 1) <= case.network.constant_is_one
    assert math.isclose(constant, 1) or not case.network.constant_is_one


def test_every_tensor_and_block_is_scaled_as_a_whole(case: Case) -> None:
    rescaled = case.copy()
    swr.rescale(rescaled, case.plan, random_scalers(case.weights))
    old, new = case.model.state_dict(), rescaled.state_dict()
    blocks = [name for name in (*case.plan.weights, *case.plan.followers) if name not in old]
    cut = {parameter_of(name) for name in blocks}
    after = {name: tensor_of(name, new) for name in (*new, *blocks)}
    for name, before in [(name, tensor_of(name, old)) for name in (*old, *blocks) if name not in cut]:
        if not before.is_floating_point() or not before.isfinite().all():
            assert torch.equal(after[name], before)
            continue
        largest = before.abs().argmax()
        factor = (after[name].flatten()[largest] / before.flatten()[largest]).nan_to_num(1.0)
        torch.testing.assert_close(after[name], factor * before, rtol=1e-12, atol=0)


@pytest.mark.parametrize("kind", ["free", "coupled", "held", "followers", "unused"])
def test_the_plan_says_what_was_derived_by_hand(case: Case, kind: str) -> None:
    expected = case.network.expected(kind, case.model, case.plan)
    if expected is None:
        pytest.skip("not claimed")
    assert set(getattr(case.plan, kind)) == expected


def test_verify_agrees(case: Case) -> None:
    inputs = case.network.inputs()
    tolerance = WITH_EPSILON if case.network.normalised else EXACT
    assert case.plan.verify(case.model, inputs) <= tolerance
    assert case.plan.verify(without_epsilon(case.copy()), inputs) <= EXACT


def test_json_round_trip_gives_the_same_plan_and_the_same_rescale(case: Case) -> None:
    plan = swr.ScalePlan.from_json(case.plan.to_json())
    assert plan == case.plan
    assert plan.describe() == case.plan.describe()
    scalers = random_scalers(case.weights)
    one, other = case.copy(), case.copy()
    assert swr.rescale(one, case.plan, scalers) == swr.rescale(other, plan, scalers)
    assert all(torch.equal(a, b) for a, b in zip(one.state_dict().values(), other.state_dict().values(), strict=True))


def test_analysis_leaves_the_model_and_the_generator_alone(case: Case) -> None:
    before, after = case.before.state_dict(), case.model.state_dict()
    assert list(before) == list(after)
    assert all(torch.equal(a, b) for a, b in zip(before.values(), after.values(), strict=True))
    assert all(parameter.grad is None for parameter in case.model.parameters())
    inputs = case.network.inputs()
    one, other = outputs(case.before, inputs, "train"), outputs(case.model, inputs, "train")
    assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))
    assert not case.generator_moved


def test_the_plan_does_not_depend_on_the_mode_of_the_model(case: Case) -> None:
    plan = swr.analyze(case.copy().eval(), case.network.inputs())
    for kind in ("free", "coupled", "held", "followers", "unused"):
        assert set(getattr(plan, kind)) == set(getattr(case.plan, kind))
    assert deviation_after_rescale(case, without_epsilon(case.copy()), plan, "train", seed=3) <= EXACT
    assert deviation_after_rescale(case, without_epsilon(case.copy()), plan, "eval", seed=3) <= EXACT


def projection(case: Case) -> Tensor:
    """P, measured: what every weight gets when one alone is asked to grow by e."""
    model = case.copy()
    columns = []
    for asked in case.weights:
        for parameter in model.parameters():
            nn.init.ones_(parameter)
        swr.rescale(model, case.plan, {asked: math.e})
        parameters = dict(model.named_parameters())
        columns.append(torch.stack([tensor_of(name, parameters).detach().log().mean() for name in case.weights]))
    return torch.stack(columns, 1)


def test_the_answer_is_the_orthogonal_projection_of_the_question(case: Case) -> None:
    measured = projection(case)
    torch.testing.assert_close(measured, measured.T, rtol=0, atol=1e-12)
    torch.testing.assert_close(measured @ measured, measured, rtol=0, atol=1e-12)


def test_the_plan_allows_every_rescaling_that_exists_and_no_other(case: Case) -> None:
    model = without_epsilon(case.copy())
    torch.manual_seed(5)
    found = admissible(model, case.network.inputs, case.weights, list(case.plan.followers))
    measured = projection(case)
    torch.testing.assert_close(found @ measured, measured, rtol=0, atol=1e-4)
    if case.network.complete:
        torch.testing.assert_close(measured, found, rtol=0, atol=1e-4)


def test_the_probe_sees_what_a_chain_allows_and_a_gelu_forbids() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 4)).double()
    found = admissible(
        model,
        lambda: (torch.randn(5, 6, dtype=torch.float64),),
        ["0.weight", "2.weight", "4.weight"],
        ["0.bias", "2.bias", "4.bias"],
    )
    by_hand = torch.tensor([[0.5, -0.5, 0.0], [-0.5, 0.5, 0.0], [0.0, 0.0, 1.0]], dtype=torch.float64)
    torch.testing.assert_close(found, by_hand, rtol=0, atol=1e-6)


def test_a_deviation_would_be_noticed() -> None:
    model = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 4)).double()
    inputs = (torch.randn(5, 6, dtype=torch.float64),)
    wrong = copy.deepcopy(model)
    with torch.no_grad():
        wrong[0].weight.mul_(1.5)
        wrong[0].bias.mul_(1.5)
    (before,), (after,) = floating_outputs(model, inputs), floating_outputs(wrong, inputs)
    assert min(relative_deviation(after, c * before) for c in torch.linspace(1.0, 2.0, 50)) > WITH_EPSILON


class RunningCentre(nn.Module):
    """Subtracts a moving average that is zero until training begins."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(6, 8), nn.Linear(8, 4)
        self.register_buffer("centre", torch.zeros(8))

    def forward(self, x: Tensor) -> Tensor:
        x = self.fc1(x)
        if self.training:
            self.centre.lerp_(x.detach().mean(0), 0.1)
        return self.fc2(x - self.centre)


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_a_buffer_of_zeros_is_not_trusted_to_stay_zero(mode: str) -> None:
    torch.manual_seed(0)
    model = RunningCentre().double()
    x = torch.randn(5, 6, dtype=torch.float64)
    plan = swr.analyze(model.train(mode == "train"), x)
    model.train()
    for _ in range(3):
        model(torch.randn(5, 6, dtype=torch.float64))
    model.eval()
    rescaled = copy.deepcopy(model)
    constant = swr.rescale(rescaled, plan, dict.fromkeys((*plan.free, *plan.coupled, *plan.held), 2.0))
    assert relative_deviation(rescaled(x), constant * model(x)) <= EXACT
    assert "fc2.weight" in plan.free


def test_an_example_of_zeros_says_nothing_about_the_scale_of_inputs() -> None:
    torch.manual_seed(0)
    fc = nn.Linear(6, 6).double()

    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = fc

        def forward(self, x: Tensor) -> Tensor:
            return x + self.fc(x)

    plan = swr.analyze(Residual(), torch.zeros(2, 6, dtype=torch.float64))
    assert plan.held == ("fc.weight",)
