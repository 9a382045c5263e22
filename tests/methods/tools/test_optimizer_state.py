"""What the optimizer forgets after a reset: exactly the reset entries, by one policy, and what that does to Adam."""

import copy

import pytest
import torch
from torch import Tensor, nn

from swr.errors import OptionError
from swr.methods.tools.optimizer_state import POLICIES, forget

OPTIMIZERS = {
    "adam": lambda p: torch.optim.Adam(p, lr=0.1, amsgrad=True),
    "fused adam": lambda p: torch.optim.Adam(p, lr=0.1, fused=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.1),
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.1, momentum=0.9, centered=True),
    "nadam": lambda p: torch.optim.NAdam(p, lr=0.1),
    "radam": lambda p: torch.optim.RAdam(p, lr=0.1),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1, initial_accumulator_value=0.5),
    "adadelta": lambda p: torch.optim.Adadelta(p),
    "adamax": lambda p: torch.optim.Adamax(p, lr=0.1),
    "rprop": lambda p: torch.optim.Rprop(p, lr=0.1),
    "asgd": lambda p: torch.optim.ASGD(p, lr=0.1),
}


def trained(make, shape=(3, 2), steps: int = 5) -> tuple[nn.Parameter, torch.optim.Optimizer]:
    torch.manual_seed(0)
    parameter = nn.Parameter(torch.randn(shape))
    optimizer = make([parameter])
    for _ in range(steps):
        parameter.grad = torch.randn(shape)
        optimizer.step()
    return parameter, optimizer


def tensors(state: dict, shape) -> dict[str, Tensor]:
    return {k: v for k, v in state.items() if isinstance(v, Tensor) and v.shape == shape and k != "step"}


@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_the_moments_of_reset_entries_are_those_of_a_first_step_and_all_others_stay(make):
    parameter, optimizer = trained(make)
    before = copy.deepcopy(optimizer.state_dict()["state"][0])
    mask = torch.tensor([[True, False], [False, False], [True, True]])
    forget(optimizer, parameter, mask)
    after = optimizer.state[parameter]
    moments = tensors(after, (3, 2))
    assert moments
    for key, value in moments.items():
        assert torch.equal(value[~mask], before[key][~mask]), key
    assert any((value[mask] != before[key][mask]).any() for key, value in moments.items())
    for key in set(after) - set(moments):
        assert after[key] is None or after[key] == before[key], key
    # The next update of a fresh tensor and of the reset entries agree, but for what the step count does.
    forget(optimizer, parameter, mask, "clear_moments_and_step")
    gradient = torch.randn(3, 2)
    other = nn.Parameter(parameter.detach().clone())
    begun = make([other])
    for p, stepping in ((parameter, optimizer), (other, begun)):
        p.grad = gradient.clone()
        stepping.step()
    torch.testing.assert_close(parameter[mask], other[mask])


@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS)
@pytest.mark.parametrize("policy", ["clear_moments_and_step", "clear_all"])
def test_a_whole_tensor_starts_again(make, policy: str):
    parameter, optimizer = trained(make)
    other = nn.Parameter(parameter.detach().clone())
    begun = make([other])
    forget(optimizer, parameter, policy=policy)
    for _ in range(3):
        gradient = torch.randn(3, 2)
        for p, stepping in ((parameter, optimizer), (other, begun)):
            p.grad = gradient.clone()
            stepping.step()
    assert torch.equal(parameter, other)


@pytest.mark.parametrize("policy", POLICIES)
def test_what_there_is_to_know_of_other_tensors_stays(policy: str):
    parameters = [nn.Parameter(torch.ones(2)) for _ in range(2)]
    optimizer = torch.optim.Adam(parameters)
    for p in parameters:
        p.grad = torch.ones(2)
    optimizer.step()
    before = copy.deepcopy(optimizer.state_dict()["state"])
    forget(optimizer, parameters[0], policy=policy)
    assert all(torch.equal(optimizer.state[parameters[1]][key], before[1][key]) for key in before[1])
    kept = parameters[0] in optimizer.state and all(
        torch.equal(optimizer.state[parameters[0]][key], before[0][key]) for key in before[0]
    )
    assert kept == (policy == "keep")


def test_the_step_count_stays_or_goes():
    for policy, step in (("clear_moments", 5), ("clear_moments_and_step", 0)):
        for fused in (True, False):
            parameter, optimizer = trained(lambda p, fused=fused: torch.optim.Adam(p, fused=fused))
            forget(optimizer, parameter, torch.tensor([[True], [False], [False]]), policy)
            assert optimizer.state[parameter]["step"].item() == step
            assert optimizer.state[parameter]["exp_avg"][0].eq(0).all()
            assert optimizer.state[parameter]["exp_avg"][1].ne(0).all()


class AdamByEntry(torch.optim.Optimizer):
    """Adam with a step count for every entry, as the authors of Continual Backprop use it."""

    def __init__(self, params, lr=0.1) -> None:
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state.update({key: torch.zeros_like(p) for key in ("step", "exp_avg", "exp_avg_sq")})
                state["step"] += 1
                state["exp_avg"].lerp_(p.grad, 0.1)
                state["exp_avg_sq"].lerp_(p.grad.square(), 0.001)
                mean = state["exp_avg"] / (1 - 0.9 ** state["step"])
                square = state["exp_avg_sq"] / (1 - 0.999 ** state["step"])
                p.sub_(group["lr"] * mean / (square.sqrt() + 1e-8))


@pytest.mark.parametrize(
    "mask", [torch.tensor([[True], [False], [False]]), torch.tensor([[True, False]] * 3)], ids=["row", "column"]
)
def test_a_step_count_for_every_entry_is_cleared_where_the_entries_were_reset(mask: Tensor):
    parameter, optimizer = trained(AdamByEntry)
    untouched, fresh = (nn.Parameter(parameter.detach().clone()) for _ in range(2))
    going_on, begun = AdamByEntry([untouched]), AdamByEntry([fresh])
    going_on.state[untouched].update(copy.deepcopy(dict(optimizer.state[parameter])))
    forget(optimizer, parameter, mask, "clear_moments_and_step")
    reset = mask.expand(3, 2)
    assert optimizer.state[parameter]["step"][reset].eq(0).all()
    assert optimizer.state[parameter]["step"][~reset].eq(5).all()
    for _ in range(3):
        gradient = torch.randn(3, 2)
        for p, stepping in ((parameter, optimizer), (untouched, going_on), (fresh, begun)):
            p.grad = gradient.clone()
            stepping.step()
    assert torch.equal(parameter[reset], fresh[reset])
    assert torch.equal(parameter[~reset], untouched[~reset])


def test_a_step_count_for_every_entry_stays_where_only_moments_go():
    parameter, optimizer = trained(AdamByEntry)
    forget(optimizer, parameter, torch.tensor([[True], [False], [False]]), "clear_moments")
    assert optimizer.state[parameter]["step"].eq(5).all()
    assert optimizer.state[parameter]["exp_avg"][0].eq(0).all()


def test_a_single_number_has_moments_apart_from_its_step_count():
    parameter, optimizer = trained(torch.optim.Adam, shape=())
    forget(optimizer, parameter)
    assert optimizer.state[parameter]["step"].item() == 5
    assert optimizer.state[parameter]["exp_avg"].item() == 0


def test_without_an_optimizer_or_a_state_nothing_happens():
    parameter = nn.Parameter(torch.ones(2))
    forget(None, parameter)
    optimizer = torch.optim.Adam([parameter])
    forget(optimizer, parameter, policy="clear_all")
    assert not optimizer.state


def test_an_unknown_policy_is_refused():
    with pytest.raises(OptionError, match="optimizer_state must be one of keep, clear_moments"):
        forget(None, torch.ones(1), policy="burn")


def updates(policy: str, step: int, count: int) -> Tensor:
    """Of a reset and an untouched entry under a constant gradient, in units of η: [count, 2]."""
    parameter = nn.Parameter(torch.zeros(2, dtype=torch.float64))
    optimizer = torch.optim.Adam([parameter], lr=1.0, eps=0.0)
    parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    moments = optimizer.state[parameter]
    moments["step"].fill_(step)
    for key, beta in (("exp_avg", 0.9), ("exp_avg_sq", 0.999)):  # of a constant gradient, after so many steps
        moments[key].fill_(1 - beta**step)
    forget(optimizer, parameter, torch.tensor([True, False]), policy)
    moved = []
    for _ in range(count):
        before = parameter.detach().clone()
        optimizer.step()
        moved.append(before - parameter.detach())
    return torch.stack(moved)


def test_cleared_moments_with_an_old_step_count_overshoot():
    reset, untouched = updates("clear_moments", 1000, 20).T
    assert reset[0].item() == pytest.approx(2.515, abs=1e-3)
    assert reset.max().item() == pytest.approx(5.24, abs=1e-2)
    torch.testing.assert_close(untouched, torch.ones(20, dtype=torch.float64))
    late, _ = updates("clear_moments", 1_000_000, 20).T
    assert late[0].item() == pytest.approx(3.162, abs=1e-3)
    assert late.max().item() == pytest.approx(6.57, abs=1e-2)
    assert late.argmax().item() == 11  # the twelfth


def test_a_cleared_step_count_slows_the_untouched_entries_down():
    reset, untouched = updates("clear_moments_and_step", 1_000_000, 11).T
    torch.testing.assert_close(reset, torch.ones(11, dtype=torch.float64))
    assert untouched[0].item() == pytest.approx(0.316, abs=1e-3)
    assert untouched[10].item() == pytest.approx(0.153, abs=1e-3)


def test_writing_through_an_index_changes_a_copy_only():
    for write in (
        lambda w, mask: w[:, mask].fill_(0),
        lambda w, mask: w.data[:, mask].data.fill_(0),
        lambda w, mask: w[:, mask.nonzero().flatten()].zero_(),
    ):
        weight = torch.ones(2, 3)
        write(weight, torch.tensor([True, False, True]))
        assert weight.eq(1).all()
    weight.masked_fill_(torch.tensor([True, False, True]), 0)
    assert weight.sum() == 2
