"""The model changes after attach: it is followed, exactly and with a word, or refused and left as it was."""

import copy
import gc
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune

import swr
from nets import train
from swr import methods


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4)).double()


@dataclass
class Loop:
    """A network in training, with a rescaler that pulls hard."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    rescaler: swr.SoftWeightRescaling

    @classmethod
    def made(cls, **options) -> "Loop":
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        rescaler = swr.SoftWeightRescaling(model, torch.randn(2, 12).double(), coefficient=0.5, **options)
        rescaler.attach(optimizer)
        loop = cls(model, optimizer, rescaler)
        train(model, optimizer, 3)
        return loop

    def grow(self, factor: float = 3.0) -> None:
        """Weights far from their anchors, so that the next rescale has something to do."""
        with torch.no_grad():
            for p in self.model.parameters():
                p.mul_(factor)

    def inputs(self) -> torch.Tensor:
        return torch.randn(32, 12).to(next(self.model.parameters()).dtype)


class Doubled(nn.Module):
    def forward(self, weight):
        return 2 * weight


def replaced(loop: Loop) -> None:
    loop.model[4] = nn.Linear(16, 6).double()
    loop.optimizer.add_param_group({"params": loop.model[4].parameters()})


def grown_by_a_layer(loop: Loop) -> None:
    loop.model.insert(4, nn.Linear(16, 16).double())
    loop.model.insert(5, nn.ReLU())
    loop.optimizer.add_param_group({"params": loop.model[4].parameters()})


def without_a_layer(loop: Loop) -> None:
    del loop.model[2]


def another_activation(loop: Loop) -> None:
    loop.model[3] = nn.GELU()


def frozen(loop: Loop) -> None:
    loop.model[0].requires_grad_(False)


def only_a_bias_frozen(loop: Loop) -> None:
    loop.model[2].bias.requires_grad_(False)


def pruned(loop: Loop) -> None:
    prune.l1_unstructured(loop.model[2], "weight", amount=0.5)


def weight_normed(loop: Loop) -> None:
    parametrizations.weight_norm(loop.model[2])
    loop.optimizer.add_param_group({"params": list(loop.model[2].parametrizations.parameters())})


def weight_normed_the_old_way(loop: Loop) -> None:
    with pytest.warns(FutureWarning):
        nn.utils.weight_norm(loop.model[2])
    loop.optimizer.add_param_group({"params": [loop.model[2].weight_g, loop.model[2].weight_v]})


def parametrised(loop: Loop) -> None:
    parametrize.register_parametrization(loop.model[2], "weight", Doubled())


def tied(loop: Loop) -> None:
    loop.model[2] = nn.Linear(16, 16).double()
    loop.model.add_module("5", nn.ReLU())
    loop.model.add_module("6", nn.Linear(4, 4).double())
    loop.model[6].weight = nn.Parameter(loop.model[6].weight.detach().clone())


FOLLOWED: dict[str, tuple[Callable[[Loop], None], str]] = {
    "replaced layer and added group": (replaced, "4 was replaced"),
    "added layer": (grown_by_a_layer, "was added"),
    "removed layer": (without_a_layer, "was removed"),
    "another activation": (another_activation, "3 was replaced"),
    "frozen": (frozen, "0.weight was frozen"),
    "a frozen bias": (only_a_bias_frozen, "2.bias was frozen"),
    "pruned": (pruned, "2.weight_orig was added"),
    "weight-normed": (weight_normed, r"2\.parametrizations"),
    "weight-normed the old way": (weight_normed_the_old_way, "2.weight_g was added"),
    "parametrised": (parametrised, r"2\.parametrizations"),
    "several at once": (tied, "2 was replaced"),
}


@torch.no_grad()
def deviation_of_the_next_rescale(loop: Loop) -> float:
    """How far one step without gradients leaves the function from proportional to what it was."""
    x = loop.inputs()
    loop.model.zero_grad()
    before = loop.model(x)
    loop.optimizer.step()
    after = loop.model(x)
    constant = (after * before).sum() / before.square().sum()
    assert not torch.equal(before, after), "nothing was rescaled"
    return float((after - constant * before).abs().max() / (constant * before).abs().max())


@pytest.mark.parametrize("case", FOLLOWED)
def test_a_changed_model_is_analysed_again_and_stays_proportional(case):
    change, text = FOLLOWED[case]
    loop = Loop.made()
    change(loop)
    with pytest.warns(swr.ModelWarning, match=f"the model has changed.*{text}.*analysed again"):
        train(loop.model, loop.optimizer, 1)
    loop.grow()
    assert deviation_of_the_next_rescale(loop) < 1e-5
    train(loop.model, loop.optimizer, 2)  # announced once


@pytest.mark.parametrize("case", FOLLOWED)
def test_without_example_inputs_it_is_refused_and_nothing_changes(case):
    change, text = FOLLOWED[case]
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    rescaler = swr.SoftWeightRescaling(model, coefficient=0.5, plan=swr.chain(model))
    rescaler.attach(optimizer)
    change(Loop(model, optimizer, rescaler))
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(swr.PlanError, match=f"changed since its plan was made.*{text}.*build a new") as caught:
        optimizer.step()
    assert "\n" not in str(caught.value)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_a_new_head_gets_its_own_initial_norm_as_anchor_and_is_pulled():
    loop = Loop.made()
    kept = loop.rescaler.anchors()
    replaced(loop)
    initial = float(loop.model[4].weight.detach().norm())
    with pytest.warns(swr.ModelWarning, match=r"2 weights keep their anchors, 4\.weight got the present norm"):
        train(loop.model, loop.optimizer, 1)
    anchors = loop.rescaler.anchors()
    assert anchors["4.weight"] == pytest.approx(initial, rel=1e-12), "taken before the first step that moved it"
    assert {name: anchors[name] for name in ("0.weight", "2.weight")} == {name: kept[name] for name in ("0.weight", "2.weight")}
    with torch.no_grad():
        loop.model[4].weight.mul_(4)
    norm = loop.rescaler.norms()["4.weight"]
    loop.model.zero_grad()
    loop.optimizer.step()
    assert loop.rescaler.norms()["4.weight"] == pytest.approx((norm + initial) / 2)


def test_layers_that_move_to_another_place_keep_their_anchors():
    loop = Loop.made()
    before = loop.rescaler.anchors()
    grown_by_a_layer(loop)
    with pytest.warns(swr.ModelWarning, match=r"3 weights keep their anchors, 4\.weight got"):
        train(loop.model, loop.optimizer, 1)
    assert loop.rescaler.anchors()["6.weight"] == before["4.weight"]


def test_a_frozen_weight_stays_and_comes_back_with_its_anchor():
    loop = Loop.made()
    anchors = loop.rescaler.anchors()
    frozen(loop)
    loop.grow()
    weights = loop.model[0].weight.detach().clone()
    with pytest.warns(swr.ModelWarning, match="0.weight was frozen"):
        train(loop.model, loop.optimizer, 2)
    assert torch.equal(loop.model[0].weight, weights)
    assert "0.weight" not in loop.rescaler.norms()
    loop.model[0].requires_grad_(True)
    train(loop.model, loop.optimizer, 1)  # back to a plan that is known: nothing to say
    assert loop.rescaler.anchors() == anchors
    assert float(loop.model[0].weight.detach().norm()) < 0.9 * float(weights.norm())


def test_a_weight_frozen_at_the_start_is_pulled_once_it_is_trained():
    model = network()
    model[0].requires_grad_(False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    rescaler = swr.SoftWeightRescaling(model, torch.randn(2, 12).double(), coefficient=0.5)
    rescaler.attach(optimizer)
    train(model, optimizer, 2)
    model[0].requires_grad_(True)
    with pytest.warns(swr.ModelWarning, match=r"0\.weight was unfrozen.*0\.weight got the present norm"):
        train(model, optimizer, 1)
    loop = Loop(model, optimizer, rescaler)
    anchor = rescaler.anchors()["0.weight"]
    loop.grow()
    assert deviation_of_the_next_rescale(loop) < 1e-5
    assert rescaler.norms()["0.weight"] == pytest.approx(2 * anchor, rel=0.05)


def test_toggling_requires_grad_at_every_step_traces_each_state_once(monkeypatch):
    loop = Loop.made()
    calls = []
    analyze = swr.rescaling.rescaler.analyze
    monkeypatch.setattr(swr.rescaling.rescaler, "analyze", lambda *args, **kwargs: calls.append(1) or analyze(*args, **kwargs))
    anchors = loop.rescaler.anchors()

    def alternate():
        for step in range(6):
            loop.model[0].requires_grad_(step % 2 == 1)
            train(loop.model, loop.optimizer, 1)

    with pytest.warns(swr.ModelWarning) as said:
        alternate()
    assert len(calls) == 1
    assert len(said) == 1
    assert loop.rescaler.anchors() == anchors


def test_state_saved_while_a_weight_is_frozen_keeps_its_anchor():
    loop = Loop.made()
    anchors = loop.rescaler.anchors()
    frozen(loop)
    with pytest.warns(swr.ModelWarning):
        train(loop.model, loop.optimizer, 1)
    state = loop.rescaler.state_dict()
    assert state["anchors"] == anchors

    again = Loop.made()
    frozen(again)
    again.model.load_state_dict(loop.model.state_dict())
    with pytest.warns(swr.ModelWarning):
        again.rescaler.load_state_dict(state)
    for each in (loop, again):
        torch.manual_seed(7)
        train(each.model, each.optimizer, 2)
        each.model[0].requires_grad_(True)
        train(each.model, each.optimizer, 2)
    assert all(torch.equal(p, q) for p, q in zip(loop.model.parameters(), again.model.parameters(), strict=True))
    with pytest.raises(swr.StateError, match="other frozen parameters"):
        Loop.made().rescaler.load_state_dict(state)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_cast_model_is_followed_without_a_word(dtype):
    loop = Loop.made()
    anchors = loop.rescaler.anchors()
    loop.model.to(dtype)
    loop.grow()
    tolerance = 1e-5 if dtype is torch.float32 else 0.05
    assert deviation_of_the_next_rescale(loop) < tolerance
    assert loop.rescaler.anchors() == anchors
    assert loop.rescaler.norms()["0.weight"] == pytest.approx(2 * anchors["0.weight"], rel=0.1)


def test_a_cast_of_one_layer_is_followed_too():
    loop = Loop.made()
    loop.model[4].to(torch.float32)
    anchors = loop.rescaler.anchors()
    loop.grow()
    grown = loop.rescaler.norms()
    loop.model.zero_grad()
    loop.optimizer.step()
    assert loop.rescaler.norms() == pytest.approx({name: (grown[name] + anchors[name]) / 2 for name in anchors})


def test_wrapping_the_model_changes_nothing():
    loop = Loop.made()
    wrapped = torch.nn.DataParallel(torch.compile(loop.model, backend="eager"))
    loop.grow()
    assert deviation_of_the_next_rescale(loop) < 1e-5
    assert next(wrapped.parameters()) is next(loop.model.parameters())


def test_a_deep_copy_is_another_model_and_the_original_goes_on():
    loop = Loop.made()
    twin = copy.deepcopy(loop.model)
    before = copy.deepcopy(twin.state_dict())
    loop.grow()
    assert deviation_of_the_next_rescale(loop) < 1e-5
    assert all(torch.equal(before[name], value) for name, value in twin.state_dict().items())


def test_parameters_replaced_in_the_same_layer_keep_their_anchor():
    loop = Loop.made()
    anchors = loop.rescaler.anchors()
    loop.model[2].weight = nn.Parameter(3 * loop.model[2].weight.detach())
    loop.optimizer.add_param_group({"params": [loop.model[2].weight]})
    loop.model.zero_grad()
    loop.optimizer.step()
    assert loop.rescaler.anchors() == anchors
    assert loop.rescaler.norms()["2.weight"] == pytest.approx(2 * anchors["2.weight"], rel=0.05)


def test_an_optimizer_that_holds_nothing_of_the_changed_model_is_refused():
    loop = Loop.made()
    for i in (0, 2, 4):
        loop.model[i] = nn.Linear(loop.model[i].in_features, loop.model[i].out_features).double()
    before = copy.deepcopy(loop.model.state_dict())
    with pytest.raises(swr.AttachError, match="holds none of this model's parameters"):
        train(loop.model, loop.optimizer, 1)
    assert all(torch.equal(before[name], value) for name, value in loop.model.state_dict().items())


def test_a_new_zero_initialised_head_has_no_anchor_yet():
    loop = Loop.made()
    replaced(loop)
    nn.init.zeros_(loop.model[4].weight)
    with pytest.warns(swr.ModelWarning, match=r"4\.weight"):
        train(loop.model, loop.optimizer, 3)
    assert loop.rescaler.anchors()["4.weight"] == 0
    assert loop.rescaler.norms()["4.weight"] > 0
    loop.rescaler.rebase()
    assert loop.rescaler.anchors()["4.weight"] > 0


# A checkpoint that comes after the rescaler.


def pretrained() -> dict[str, torch.Tensor]:
    model = network()
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(1.3)
    return model.state_dict()


@pytest.mark.parametrize("by_hand", [False, True])
def test_a_checkpoint_loaded_after_the_rescaler_was_built_is_noticed_once(by_hand):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    rescaler = swr.SoftWeightRescaling(model, torch.randn(2, 12).double(), coefficient=1e-3)
    if not by_hand:
        rescaler.attach(optimizer)
    model.load_state_dict({name: value * (2 if by_hand else 1) for name, value in pretrained().items()})
    with pytest.warns(swr.ModelWarning, match=r"checkpoint.*build the rescaler after loading, or call rebase\(\)") as said:
        train(model, optimizer, 2, after=rescaler.step if by_hand else None)
    assert len(said) == 1


@pytest.mark.parametrize("way_out", ["rebase", "build after loading", "load its state"])
def test_the_ways_out_are_silent_and_right(way_out):
    model = network()
    inputs = torch.randn(2, 12).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    if way_out == "build after loading":
        model.load_state_dict(pretrained())
    rescaler = swr.SoftWeightRescaling(model, inputs, coefficient=1e-3)
    rescaler.attach(optimizer)
    state = rescaler.state_dict()
    model.load_state_dict(pretrained())
    if way_out == "rebase":
        rescaler.rebase()
    elif way_out == "load its state":
        rescaler.load_state_dict(state)
    expected = state["anchors"] if way_out == "load its state" else rescaler.norms()
    train(model, optimizer, 2)
    assert rescaler.anchors() == expected


def test_a_checkpoint_of_the_same_run_loaded_in_the_middle_needs_no_word():
    loop = Loop.made()
    best = copy.deepcopy(loop.model.state_dict())
    train(loop.model, loop.optimizer, 3)
    loop.model.load_state_dict(best)
    train(loop.model, loop.optimizer, 1)
    assert loop.rescaler.state_dict()["optimizers"][0]["steps"] == 7


# Twice by accident.


def test_a_second_rescaler_on_the_same_optimizer_and_weights_is_refused():
    loop = Loop.made()
    second = swr.SoftWeightRescaling(loop.model, torch.randn(2, 12).double(), coefficient=0.5)
    with pytest.raises(swr.AttachError, match=r"another SoftWeightRescaling.*0\.weight.*build the optimizer again"):
        second.attach(loop.optimizer)
    with pytest.raises(swr.AttachError, match="another SoftWeightRescaling"):
        methods.build("swr", loop.model, torch.randn(2, 12).double(), coefficient=0.5).attach(loop.optimizer)
    loop.grow()
    norms = loop.rescaler.norms()
    loop.model.zero_grad()
    loop.optimizer.step()
    anchors = loop.rescaler.anchors()
    assert loop.rescaler.norms() == pytest.approx({name: (norms[name] + anchors[name]) / 2 for name in norms}), "pulled once"


def test_two_networks_in_one_optimizer_may_each_have_a_rescaler():
    actor, critic = network(), network()
    optimizer = torch.optim.SGD([*actor.parameters(), *critic.parameters()], lr=0.0)
    rescalers = [swr.SoftWeightRescaling(m, torch.randn(2, 12).double(), coefficient=0.5) for m in (actor, critic)]
    for rescaler in rescalers:
        rescaler.attach(optimizer)
    optimizer.step()
    assert [r.state_dict()["optimizers"][0]["steps"] for r in rescalers] == [1, 1]


def test_the_second_may_attach_when_the_first_is_gone():
    loop = Loop.made()
    second = swr.SoftWeightRescaling(loop.model, torch.randn(2, 12).double(), coefficient=0.5)
    (group,) = loop.rescaler.state_dict()["optimizers"]
    assert group["steps"] == 3
    model, optimizer = loop.model, torch.optim.SGD(loop.model.parameters(), lr=0.0)
    del loop
    gc.collect()
    second.attach(optimizer)
    for p in model.parameters():
        p.grad = None
    optimizer.step()
    assert second.state_dict()["optimizers"][0]["steps"] == 1


def test_a_plan_made_before_something_was_frozen_is_refused():
    model = network()
    plan = swr.analyze(model, torch.randn(2, 12).double())
    model[0].requires_grad_(False)
    with pytest.raises(swr.PlanError, match=r"made while 0\.bias was trained, now it is frozen; analyse the model again"):
        swr.SoftWeightRescaling(model, plan=plan)
