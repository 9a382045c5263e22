"""The learning rate of a step."""

import pytest
import torch

from swr.bench.experiments import RunConfig
from swr.bench.training.schedule import lr_at


def rates(schedule: str, steps: int, **changes) -> list[float]:
    config = RunConfig("generalization", "digits-mlp", "vanilla", lr=1.0, lr_schedule=schedule, **changes)
    return [lr_at(config, 1 + step // 2, step, steps) for step in range(steps)]  # two steps an epoch


def test_constant_and_step_count_epochs_from_1():
    assert rates("step", 4) == [1, 1, 1, 1]
    assert rates("step", 8, lr_drops=(2, 4), lr_factor=0.5) == [1, 1, 0.5, 0.5, 0.5, 0.5, 0.25, 0.25]


def test_cosine_falls_from_the_whole_rate_towards_0():
    assert rates("cosine", 6) == pytest.approx([1, 0.9330127, 0.75, 0.5, 0.25, 0.0669873])


def test_warm_up_takes_a_twentieth_of_the_steps():
    found = rates("warmup-cosine", 80)
    assert found[:5] == [0.25, 0.5, 0.75, 1, 1]
    assert found[4 + 38] == pytest.approx(0.5)  # the middle of the other 76
    assert rates("warmup-cosine", 1) == [1]


def test_one_cycle_is_largest_after_three_tenths():
    found = rates("one-cycle", 20)
    assert found[0] == pytest.approx(1 / 25)
    assert found[3] == pytest.approx((1 / 25 + 1) / 2)  # the middle of the way up
    assert found[6] == max(found) == 1
    assert found[13] == pytest.approx((1 / 250_000 + 1) / 2)  # the middle of the way down
    assert found[6:] == sorted(found[6:], reverse=True)


def test_restarts_are_four_cosines():
    assert rates("restarts", 16) == pytest.approx([1, 0.8535534, 0.5, 0.1464466] * 4)


@pytest.mark.parametrize(
    ("schedule", "theirs"),
    [
        ("cosine", lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=40)),
        ("restarts", lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=10)),
    ],
)
def test_the_same_as_torchs(schedule, theirs):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    scheduler, found = theirs(optimizer), []
    for _ in range(40):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    assert rates(schedule, 40) == pytest.approx(found)


@pytest.mark.parametrize("schedule", ["cosine", "warmup-cosine", "one-cycle", "restarts"])
@pytest.mark.parametrize("steps", [1, 2, 3, 7, 1001])
def test_every_rate_of_a_run_of_any_length_is_positive_and_at_most_the_configured_one(schedule, steps):
    found = rates(schedule, steps)
    assert all(0 < rate <= 1 for rate in found)
    assert steps < 3 or min(found) < 1
