"""Self-Normalized Resets: ages, thresholds and resets are those of the authors' rule, written out unit by unit."""

import pytest
import torch
from torch import nn

from swr import methods
from swr.methods.self_normalized_resets import next_thresholds

from .methods_table import changed
from .unit_helpers import X, passed, small, tensors


def test_silences_end_when_a_unit_fires():
    model = nn.Sequential(nn.Linear(1, 2), nn.ReLU(), nn.Linear(2, 1))
    with torch.no_grad():
        model[0].weight.copy_(torch.tensor([[1.0], [0.0]]))
        model[0].bias.copy_(torch.tensor([0.0, 1.0]))
    silent, loud = -torch.ones(10, 1), torch.tensor([[-1.0]] * 9 + [[1.0]])
    method = methods.SelfNormalizedResets(model, silent, longest=100)
    ages = []
    for batch in (silent, silent, silent, loud):
        passed(model, method, batch)
        ages.append(method.age.tolist())
    assert ages == [[10, 0], [20, 0], [30, 0], [0, 0]]
    assert method.width == 10
    assert method.histogram[0].nonzero().flatten().tolist() == [3]
    assert not method.histogram[1].any()


@pytest.mark.parametrize(("threshold", "expected"), [(50, 20), (15, 30), (20, 40), (80, 20)])
def test_thresholds_follow_the_quantile_down_and_double_up(threshold: int, expected: int):
    histogram = torch.tensor([[5, 8, 1, 0, 1, 0]])  # bin 0 does not count
    limits = {"rejection": 0.15, "width": 10, "shortest": 10, "longest": 100}
    assert next_thresholds(histogram, torch.tensor([threshold]), **limits).item() == expected
    assert next_thresholds(histogram, torch.tensor([70]), **{**limits, "longest": 15}).item() == 15
    assert next_thresholds(histogram, torch.tensor([70]), **{**limits, "shortest": 30}).item() == 30


def test_a_unit_that_never_was_silent_falls_to_one_batch_as_in_the_authors_code():
    histogram = torch.tensor([[7, 0, 0, 0]])
    found = next_thresholds(histogram, torch.tensor([50]), rejection=0.1, width=20, shortest=10, longest=100)
    assert found.item() == 10
    assert next_thresholds(histogram, torch.tensor([1]), rejection=0.1, width=20, shortest=1, longest=100).item() == 2


class LiteralSNR:
    """The authors' rule, unit by unit: their histogram has a bin for every number of examples, and a batch is the floor."""

    def __init__(self, units: int, batch: int, rejection: float, every: int, longest: int) -> None:
        self.batch, self.rejection, self.every, self.longest = batch, rejection, every, longest
        self.age, self.threshold = [0] * units, [longest] * units
        self.histogram = [[0] * (longest + 1) for _ in range(units)]
        self.tasks = 0

    def step(self, fires: list[bool]) -> list[int]:
        for i, fired in enumerate(fires):
            if fired:
                self.histogram[i][self.age[i]] += 1
                self.age[i] = 0
            else:
                self.age[i] += self.batch
        reset = [i for i in range(len(fires)) if self.age[i] >= self.threshold[i]]
        for i in reset:
            self.histogram[i][self.age[i]] += 1
            self.age[i] = 0
        return reset

    def new_task(self) -> None:
        self.tasks += 1
        if self.tasks % self.every:
            return
        for i, histogram in enumerate(self.histogram):
            total, below, quantile = sum(histogram[1:]), 0, 1
            for age in range(1, self.longest + 1) if total else ():  # 0 / 0 is not a number, and index 1 is what is left
                below += histogram[age]
                if below / total >= 1 - self.rejection:
                    quantile = age
                    break
            moved = quantile if quantile < self.threshold[i] else 2 * self.threshold[i]
            self.threshold[i] = max(self.batch, min(moved, self.longest))
            self.histogram[i] = [0] * (self.longest + 1)


@pytest.mark.parametrize("batch", [1, 4])
def test_ages_resets_and_thresholds_are_those_of_the_authors_rule(batch: int):
    units, generator = 12, torch.Generator().manual_seed(0)
    model = nn.Sequential(nn.Linear(3, units), nn.ReLU(), nn.Linear(units, 2))
    options = {"rejection": 0.137, "every": 2, "longest": 48 * batch}
    method = methods.SelfNormalizedResets(model, torch.zeros(2, 3), **options)
    recycled: list[int] = []
    method.recycle = lambda chosen: recycled.extend(i for _, index in chosen for i in index.tolist())
    literal = LiteralSNR(units, batch, **options)
    rates = torch.linspace(0, 1, units) ** 2  # one never fires, one always does
    resets, thresholds = 0, set()
    for _ in range(8):
        for _ in range(100):
            fires = torch.rand(units, generator=generator) < rates
            method.see(0, fires.float().expand(batch, units))
            recycled.clear()
            method.step()
            assert literal.step(fires.tolist()) == recycled
            assert method.age.tolist() == literal.age
            resets += len(recycled)
        for one in (method, literal):
            one.new_task()
        assert method.threshold.tolist() == literal.threshold
        thresholds |= set(literal.threshold)
        rates = rates.flip(0) if resets % 2 else rates
    assert resets > 20
    assert len(thresholds) > 4
    assert min(thresholds) == batch


def test_a_unit_is_reset_when_its_silence_reaches_the_threshold_and_that_is_recorded():
    model = small()
    method = methods.SelfNormalizedResets(model, X, longest=6, every=1, rejection=0.0)
    before = tensors(model)
    for _ in range(2):
        passed(model, method)
    assert method.age.tolist() == [0, 4, 0]
    assert not changed(before, tensors(model))
    passed(model, method)
    assert method.age.tolist() == [0, 0, 0]
    assert method.histogram[1].nonzero().flatten().tolist() == [3]
    after = tensors(model)
    assert after["0.weight"][1].ne(before["0.weight"][1]).all()
    assert after["2.weight"].tolist() == [[1.0, 0.0, -1.0], [-1.0, 0.0, 0.0]]
    assert torch.equal(after["0.weight"][[0, 2]], before["0.weight"][[0, 2]])


@pytest.mark.parametrize("counted_in", ["tasks", "steps"])
def test_thresholds_are_estimated_every_few_tasks_or_steps(counted_in: str):
    model = small()
    method = methods.SelfNormalizedResets(model, X, longest=100, every=3, counted_in=counted_in)
    awake = torch.tensor([[0.0, 0.0], [1.0, 0.0]])
    with torch.no_grad():
        model[0].weight[1] = torch.tensor([1.0, -1.0])  # silent for -awake, and not for awake
    found = []
    for batch in (-awake, awake, awake, awake, awake):
        passed(model, method, batch)
        if counted_in == "steps":
            found.append(method.threshold.tolist())
    for _ in range(5):
        method.new_task()
        if counted_in == "tasks":
            found.append(method.threshold.tolist())
    assert found == [[100] * 3] * 2 + [[2] * 3] * 3  # one silence of one batch on record, or none
    assert not method.histogram.any()


def literal_resets(fires: list[list[bool]], batch: int, first: int) -> list[tuple[int, int]]:
    """Ages and resets as the card has them, unit by unit: (step, unit)."""
    age, found = [0] * len(fires[0]), []
    for step, row in enumerate(fires):
        for unit, fired in enumerate(row):
            age[unit] = 0 if fired else age[unit] + batch
            if age[unit] >= first:
                age[unit] = 0
                found.append((step, unit))
    return found


def test_looking_for_resets_only_when_there_can_be_one_misses_none():
    torch.manual_seed(0)
    fires = (torch.rand(120, 6) < torch.tensor([0.9, 0.5, 0.3, 0.2, 0.1, 0.0])).tolist()
    model = nn.Sequential(nn.Linear(6, 6, bias=False), nn.ReLU(), nn.Linear(6, 1))
    nn.init.eye_(model[0].weight)
    method = methods.SelfNormalizedResets(model, torch.zeros(4, 6), longest=20)
    looked, found = 0, []
    reset = method._reset

    def counted() -> None:
        nonlocal looked
        looked += 1
        reset()

    method._reset = counted
    for step, row in enumerate(fires):
        before = model[0].weight.detach().clone()
        passed(model, method, torch.tensor([row] * 4).float())
        found += [(step, unit) for unit in range(6) if not torch.equal(before[unit], model[0].weight[unit])]
        nn.init.eye_(model[0].weight)
    assert found == literal_resets(fires, 4, 20)
    assert len(found) > 20
    assert looked < 80
