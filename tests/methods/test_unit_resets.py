"""ReDo, Continual Backprop, Self-Normalized Resets and CReLU: the units they choose, and what becomes of them."""

import copy
import io
import pickle

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import swr
from swr import methods
from swr.algebra.units import find_units
from swr.bench.data import load
from swr.bench.experiments import RunConfig
from swr.bench.training import Training
from swr.errors import InputsError, ModelError, OptionError, StateError
from swr.methods.redo import dormancy_scores
from swr.methods.self_normalized_resets import next_thresholds

from .methods_table import Loop, changed

NAMES = ("redo", "continual-backprop", "self-normalized-resets")


def small(bias: bool = True) -> nn.Sequential:
    """Two inputs that are each other's unit vectors give h = [[1, 0, 2], [3, 0, 2]]."""
    model = nn.Sequential(nn.Linear(2, 3, bias), nn.ReLU(), nn.Linear(3, 2, bias))
    with torch.no_grad():
        model[0].weight.copy_(torch.tensor([[1.0, 3.0], [0.0, 0.0], [2.0, 2.0]]))
        model[2].weight.copy_(torch.tensor([[1.0, 5.0, -1.0], [-1.0, 5.0, 0.0]]))
        if bias:
            model[0].bias.zero_()
    return model


X = torch.eye(2)


def tensors(model: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def passed(model: nn.Module, method: methods.Method, inputs: Tensor = X) -> None:
    """A training pass and a step by hand, without an optimizer to move the weights."""
    model(inputs)
    method.step()


def test_dormancy_scores_have_mean_one():
    scores = dormancy_scores(torch.tensor([[1.0, 0.0, 2.0], [3.0, 0.0, 2.0]]))
    assert scores.tolist() == pytest.approx([1.5, 0.0, 1.5])
    channels = torch.rand(2, 3, 4, 5)  # [examples, places, units]
    assert dormancy_scores(channels).mean().item() == pytest.approx(1.0)


@pytest.mark.parametrize("bias", [True, False])
def test_redo_recycles_the_dormant_unit_and_nothing_else(bias: bool):
    model = small(bias)
    with torch.no_grad():
        if bias:
            model[0].bias[1] = -1.0
    before = tensors(model)
    method = methods.ReDo(model, X, threshold=0.1, every=1)
    passed(model, method)
    after = tensors(model)
    assert after["0.weight"][1].ne(before["0.weight"][1]).all()
    assert after["0.weight"].abs().max() <= 3
    assert after["0.weight"][1].abs().max() <= 2**-0.5
    assert torch.equal(after["2.weight"], torch.tensor([[1.0, 0.0, -1.0], [-1.0, 0.0, 0.0]]))
    assert torch.equal(after["0.weight"][[0, 2]], before["0.weight"][[0, 2]])
    if bias:
        assert after["0.bias"].tolist() == [0.0, 0.0, 0.0]
        assert torch.equal(after["2.bias"], before["2.bias"])


def test_recycling_a_silent_unit_leaves_the_outputs_of_the_batch_as_they_were():
    model = small()
    outputs = model(X)
    method = methods.ReDo(model, X, threshold=0.1, every=1)
    passed(model, method)
    assert torch.equal(model(X), outputs)


def test_in_a_silent_layer_every_unit_is_dormant():
    model = small()
    nn.init.zeros_(model[0].weight)
    passed(model, methods.ReDo(model, X, threshold=0.0, every=1))
    assert model[0].weight.ne(0).all()
    assert model[2].weight.eq(0).all()


def test_redo_acts_at_every_nth_step_on_the_activations_of_that_step():
    model = small()
    method = methods.ReDo(model, X, threshold=0.1, every=3)
    for _ in range(2):
        passed(model, method, torch.zeros(2, 2))  # all silent, and not looked at
    assert model[2].weight.ne(0).sum() == 5
    passed(model, method)
    assert model[2].weight[:, 1].eq(0).all()
    assert model[2].weight[:, [0, 2]].ne(0).sum() == 3


def test_a_step_without_a_pass_puts_redo_off_until_there_is_one():
    model = small()
    method = methods.ReDo(model, X, threshold=0.1, every=2)
    for _ in range(3):
        method.step()
    assert model[2].weight[:, 1].ne(0).all()
    passed(model, method)
    assert model[2].weight[:, 1].eq(0).all()


def test_several_passes_before_a_step_count_together():
    model = small()
    method = methods.ReDo(model, X, threshold=0.1, every=1)
    model(X)
    model(torch.tensor([[0.0, 0.0]]))
    wake = nn.init.ones_(model[0].weight.data[1:2])
    model(X)
    method.step()
    assert torch.equal(model[0].weight[1:2], wake)
    assert model[2].weight[:, 1].ne(0).all()


def test_of_two_dormant_units_that_follow_each_other_neither_has_outgoing_weights():
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1))
    with torch.no_grad():
        for layer in (model[0], model[2]):
            layer.weight.copy_(torch.eye(2))
            layer.bias.copy_(torch.tensor([0.0, -9.0]))
    passed(model, methods.ReDo(model, X, threshold=0.1, every=1))
    assert model[2].weight[:, 1].eq(0).all()  # although row 1 was drawn anew
    assert model[2].weight[1, 0] != 0
    assert model[2].weight[1, 0] != 1
    assert model[4].weight[0, 1] == 0


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_channels_lose_the_columns_of_their_own_behind_a_flatten_and_their_normalisation(layout: torch.memory_format):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(12, 2)).to(
        memory_format=layout
    )
    with torch.no_grad():
        model[1].weight.copy_(torch.tensor([1.0, 2.0, 3.0]))
        model[1].bias.copy_(torch.tensor([0.0, -99.0, 0.0]))
    inputs = torch.randn(4, 1, 6, 6)
    method = methods.ReDo(model, inputs, threshold=0.01, every=1)
    before = tensors(model)
    passed(model, method, inputs)
    after = tensors(model)
    assert after["0.weight"][1].ne(before["0.weight"][1]).all()
    assert torch.equal(after["0.weight"][[0, 2]], before["0.weight"][[0, 2]])
    assert after["0.weight"].is_contiguous(memory_format=layout)
    assert after["0.bias"][1] == 0
    assert after["1.weight"].tolist() == [1.0, 1.0, 3.0]
    assert after["1.bias"].tolist() == [0.0, 0.0, 0.0]
    assert (after["1.running_mean"][1].item(), after["1.running_var"][1].item()) == (0.0, 1.0)
    assert after["1.running_var"][0] != 1.0
    assert after["5.weight"][:, 4:8].eq(0).all()
    kept = [0, 1, 2, 3, 8, 9, 10, 11]
    assert torch.equal(after["5.weight"][:, kept], before["5.weight"][:, kept])
    assert torch.equal(after["5.bias"], before["5.bias"])


def test_fresh_weights_are_drawn_with_the_fan_in_of_the_layer_or_by_a_given_initialiser():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(100, 400), nn.ReLU(), nn.Linear(400, 2))
    nn.init.zeros_(model[0].weight)
    nn.init.zeros_(model[0].bias)
    x = torch.randn(3, 100)
    passed(model, methods.ReDo(model, x, threshold=0.0, every=1), x)
    assert model[0].weight.abs().max() <= 0.1
    assert model[0].weight.std().item() == pytest.approx(0.1 / 3**0.5, rel=0.02)
    given = small()
    bias = given[2].bias.detach().clone()
    passed(given, methods.ReDo(given, X, threshold=0.1, every=1, initialise=lambda m: nn.init.constant_(m.weight, 7.0)))
    assert given[0].weight.tolist() == [[1.0, 3.0], [7.0, 7.0], [2.0, 2.0]]
    assert torch.equal(given[2].bias, bias)


@pytest.mark.parametrize("policy", ["keep", "clear_moments", "clear_moments_and_step", "clear_all"])
def test_the_optimizer_forgets_recycled_entries_by_the_policy(policy: str):
    model = small()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.0)
    method = methods.ReDo(model, X, threshold=0.1, every=2, optimizer_state=policy)
    method.attach(optimizer)
    for _ in range(2):
        optimizer.zero_grad()
        loss = (model(X) * torch.tensor([1.0, 2.0])).sum()
        for p in model.parameters():
            p.grad = torch.ones_like(p)
        loss.detach()
        optimizer.step()
    recycled = {
        model[0].weight: torch.tensor([[False] * 2, [True] * 2, [False] * 2]),
        model[0].bias: torch.tensor([False, True, False]),
        model[2].weight: torch.tensor([[False, True, False]] * 2),
        model[2].bias: torch.tensor([False, False]),
    }
    for p, mask in recycled.items():
        if policy == "clear_all" and mask.any():
            assert p not in optimizer.state
            continue
        state = optimizer.state[p]
        cleared = mask if policy != "keep" else torch.zeros_like(mask)
        for key in ("exp_avg", "exp_avg_sq"):
            assert state[key][cleared].eq(0).all()
            assert state[key][~cleared].ne(0).all()
        assert state["step"].item() == (0 if policy == "clear_moments_and_step" and mask.any() else 2)


def test_continual_backprop_replaces_the_least_useful_of_the_mature_units():
    model = small()
    method = methods.ContinualBackprop(model, X, rate=0.5, maturity=1, decay=0.0)
    passed(model, method)
    assert method.utility.tolist() == [2.0, 0.0, 1.0]
    assert method.age.tolist() == [1, 1, 1]
    assert method.owed == [0.0]  # nobody is older than one step
    before = tensors(model)
    passed(model, method)
    assert method.owed == [0.5]
    assert method.age.tolist() == [2, 0, 2]
    assert model[0].weight[1].ne(0).all()
    assert model[2].weight.tolist() == [[1.0, 0.0, -1.0], [-1.0, 0.0, 0.0]]
    assert torch.equal(model[0].weight[[0, 2]], before["0.weight"][[0, 2]])
    passed(model, method)
    assert method.owed == [0.5]  # half a unit, and half of the two that are mature
    assert method.age.tolist() == [3, 1, 0]
    assert model[2].weight.tolist() == [[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]]


def literal_continual_backprop(h: Tensor, outgoing: Tensor, d: float, m: int, rho: float, steps: int) -> list[list[int]]:
    """The card, unit by unit; activations and weights are constant."""
    size = h.shape[1]
    age, u, c, replaced = [0] * size, [0.0] * size, 0.0, []
    for _ in range(steps):
        for i in range(size):
            age[i] += 1
            u[i] = d * u[i] + (1 - d) * h[:, i].abs().mean().item() * outgoing[:, i].abs().mean().item()
        mature = [i for i in range(size) if age[i] > m]
        c += rho * len(mature)
        n = int(c)
        c -= n
        worst = sorted(mature, key=lambda i: u[i] / (1 - d ** age[i]))[:n]
        for i in worst:
            u[i], age[i] = 0.0, 0
        replaced.append(sorted(worst))
    return replaced


def test_continual_backprop_chooses_as_the_literal_algorithm_does():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 9), nn.Tanh(), nn.Linear(9, 3))
    x = torch.randn(8, 4)
    with torch.no_grad():  # units that are almost equally useful, so that young ones look worse without the correction
        model[0].weight.mul_(50)
        model[2].weight.copy_(1 + 0.1 * torch.rand(3, 9))
    h, outgoing = torch.tanh(model[0](x)).detach(), model[2].weight.detach().clone()
    kept = {name: p.detach().clone() for name, p in model.named_parameters()}
    method = methods.ContinualBackprop(model, x, rate=0.15, maturity=4, decay=0.9)
    found = []
    for _ in range(40):
        before = method.age.clone()
        passed(model, method, x)
        found.append((method.age <= before).nonzero().flatten().tolist())
        model.load_state_dict(kept)  # so that what is judged stays the same
    assert found == literal_continual_backprop(h, outgoing, 0.9, 4, 0.15, 40)
    assert sum(map(len, found)) > 10


def test_the_outgoing_weights_of_a_channel_are_all_its_columns():
    model = nn.Sequential(nn.Conv2d(1, 2, 1, bias=False), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3))
    nn.init.ones_(model[0].weight)
    x = torch.ones(2, 1, 2, 2)
    method = methods.ContinualBackprop(model, x, rate=0.1, decay=0.0)
    passed(model, method, x)
    expected = [model[3].weight[:, :4].abs().mean().item(), model[3].weight[:, 4:].abs().mean().item()]
    assert method.utility.tolist() == pytest.approx(expected)


def test_the_outgoing_weights_of_a_unit_with_several_consumers_count_together():
    class Fork(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(1, 4, 1)
            self.one, self.two = nn.Conv2d(4, 6, 3, padding=1, groups=2), nn.Conv2d(4, 2, 1)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            h = self.conv(x).relu()
            return self.one(h), self.two(h)

    model, x = Fork(), torch.ones(1, 1, 2, 2)
    with torch.no_grad():
        model.conv.weight.fill_(0.0)
        model.conv.bias.fill_(1.0)
    method = methods.ContinualBackprop(model, x, rate=0.1, decay=0.0)
    passed(model, method, x)
    for unit in range(4):
        rows = slice(0, 3) if unit < 2 else slice(3, 6)
        leaving = torch.cat([model.one.weight[rows, unit % 2].flatten(), model.two.weight[:, unit].flatten()])
        assert method.utility[unit].item() == pytest.approx(leaving.abs().mean().item(), rel=1e-5)


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


def test_a_unit_that_never_was_silent_keeps_its_threshold():
    histogram = torch.tensor([[7, 0, 0, 0]])
    found = next_thresholds(histogram, torch.tensor([50]), rejection=0.1, width=10, shortest=10, longest=100)
    assert found.item() == 50


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
    assert found == [[100] * 3] * 2 + [[2] * 3] * 3  # of one silence of one batch on record
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


@pytest.mark.parametrize("name", NAMES)
def test_evaluation_copies_and_traces_are_not_looked_at(name: str):
    model = small()
    method = methods.build(name, model, X, **({"every": 1} if name == "redo" else {}))
    seen = []
    method.see = lambda layer, activation: seen.append(layer)
    model.eval()(X)
    model.train()
    with torch.no_grad():
        model(X)
    copied = copy.deepcopy(model)
    copied(X)
    pickle.loads(pickle.dumps(model))(X)
    swr.analyze(model, X)
    find_units(model, X)
    assert not seen
    model(X)
    assert seen == [0]
    method.close()
    model(X)
    assert seen == [0]


@pytest.mark.parametrize("name", NAMES)
def test_a_model_that_hides_its_activations_is_noticed(name: str):
    model = small()
    method = methods.build(name, model, X, **({"every": 1} if name == "redo" else {}))
    passed(model, method)
    torch.compiler.reset()
    hidden = torch.compile(model, backend="eager")
    for _ in range(99):
        hidden(X)
        method.step()
    with pytest.raises(ModelError, match=r"100 steps without a training pass.*torch\.compile"):
        method.step()


@pytest.mark.parametrize("name", NAMES)
def test_an_epoch_of_the_digits_is_learnt_from(name: str):
    hyper = {"redo": (("every", 10.0),), "continual-backprop": (("maturity", 10.0),)}.get(name, (("longest", 500.0),))
    config = RunConfig("generalization", "digits-mlp", name, hyper, epochs=(1,), batch_size=32)
    training = Training(config, load("digits"))
    epoch = training.epoch()
    assert epoch.test_accuracy > 0.6


@pytest.mark.parametrize("name", NAMES)
def test_inner_units_of_residual_networks_and_transformers_are_recycled(name: str):
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.enter, self.norm, self.head = nn.Linear(4, 6), nn.LayerNorm(6), nn.Linear(6, 3)
            self.up, self.down = nn.Linear(6, 8), nn.Linear(8, 6)

        def forward(self, x: Tensor) -> Tensor:
            x = self.enter(x)
            return self.head(x + self.down(F.gelu(self.up(self.norm(x)))))

    torch.manual_seed(0)
    model, x = Block(), torch.randn(5, 7, 4)
    with torch.no_grad():
        model.up.bias.fill_(2.0)
        model.up.bias[3] = -1e4  # gelu is exactly 0 there
    options = {
        "redo": {"every": 1, "threshold": 0.0},
        "continual-backprop": {"rate": 0.13, "maturity": 0},
        "self-normalized-resets": {"longest": 5},
    }[name]
    method = methods.build(name, model, x, **options)
    assert [layer.name for layer in method.units.layers] == ["up"]
    before, outputs = tensors(model), model(x)
    method.step()
    assert changed(before, tensors(model)) == {"up.weight", "up.bias", "down.weight"}
    assert model.down.weight[:, 3].eq(0).all()
    assert model.down.weight.eq(0).sum() == 6
    torch.testing.assert_close(model(x), outputs)


@pytest.mark.parametrize("name", NAMES)
def test_resumes_in_the_middle_of_an_interval_bit_for_bit(name: str):
    hyper = {
        "redo": {"threshold": 0.4, "every": 3},
        "continual-backprop": {"rate": 0.05, "maturity": 3},
        "self-normalized-resets": {"longest": 18, "every": 1, "rejection": 0.3},
    }[name]
    loop = Loop("cnnbn", name, hyper)
    loop.train(0, 7)
    file = io.BytesIO()
    torch.save([loop.model.state_dict(), loop.optimizer.state_dict(), loop.method.state_dict()], file)
    file.seek(0)
    model, optimizer, method = torch.load(file, weights_only=True)
    again = Loop("cnnbn", name, hyper, seed=3)
    again.model.load_state_dict(model)
    again.optimizer.load_state_dict(optimizer)
    again.method.load_state_dict(method)
    plain = Loop("cnnbn", "vanilla", {})
    plain.model.load_state_dict(model)
    plain.optimizer.load_state_dict(optimizer)
    for one in (loop, again, plain):
        one.train(7, 17)
        one.new_task()
        one.train(17, 27)
    assert not changed(loop.tensors(), again.tensors())
    assert changed(loop.tensors(), plain.tensors())


@pytest.mark.parametrize("name", NAMES)
def test_a_state_of_other_units_is_refused(name: str):
    one = methods.build(name, small(), X)
    other = methods.build(name, nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 2)), X)
    with pytest.raises(StateError, match="another model"):
        one.load_state_dict(other.state_dict())


@pytest.mark.parametrize("name", NAMES)
def test_without_inputs_or_units_there_is_a_clear_error(name: str):
    with pytest.raises(InputsError, match="pass example_inputs"):
        methods.build(name, small())
    with pytest.raises(ModelError, match=r"no unit of this model can be recycled:\n0 +left alone: it is an output"):
        methods.build(name, nn.Sequential(nn.Linear(2, 1)), X)
    with pytest.raises(OptionError, match="optimizer_state"):
        methods.build(name, small(), X, optimizer_state="burn")


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("redo", {"every": 0}),
        ("continual-backprop", {"rate": 1.5}),
        ("continual-backprop", {"maturity": -1}),
        ("continual-backprop", {"decay": -0.1}),
        ("self-normalized-resets", {"rejection": 2.0}),
        ("self-normalized-resets", {"every": 0.5}),
        ("self-normalized-resets", {"counted_in": "epochs"}),
    ],
)
def test_options_out_of_range_are_refused(name: str, wrong: dict[str, object]):
    with pytest.raises(OptionError, match=next(iter(wrong))):
        methods.build(name, small(), X, **wrong)


class TestCReLU:
    def test_both_halves_stand_side_by_side(self):
        assert methods.CReLU()(torch.tensor([1.0, -2.0])).tolist() == [1.0, 0.0, 0.0, 2.0]
        assert methods.CReLU(1)(torch.zeros(2, 3, 4, 5)).shape == (2, 6, 4, 5)

    @pytest.mark.parametrize("network", ["mlp", "cnn", "cnnbn", "vgg16"])
    def test_the_papers_networks_become_wider_behind_each_relu_and_train(self, network: str):
        loop = Loop(network, "vanilla", {})
        inputs = loop.batch(0)[0]
        before = loop.tensors()
        model = methods.crelu(loop.model, inputs)
        assert not changed(before, loop.tensors())
        layers = [(old, new) for old, new in zip(loop.model, model, strict=True) if isinstance(old, (nn.Linear, nn.Conv2d))]
        first, *others = layers
        assert torch.equal(first[0].weight, first[1].weight)
        for old, new in others:
            assert new.weight.shape[1] == 2 * old.weight.shape[1]
            bound = new.weight[0].numel() ** -0.5
            assert bound / 2 < new.weight.abs().max() <= bound
        assert not any(isinstance(module, nn.ReLU) for module in model.modules())
        model(inputs).sum().backward()
        assert all(p.grad is not None for p in model.parameters())

    def test_every_unit_has_exactly_one_live_half(self):
        model = methods.crelu(nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2)), X)
        halves = model[1](model[0](torch.randn(50, 2))).view(50, 2, 3)
        assert ((halves > 0).sum(1) == 1).all()

    def test_tokens_are_joined_along_their_features_and_images_along_their_channels(self):
        tokens = methods.crelu(nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2)), torch.zeros(2, 7, 4))
        assert tokens[1].axis == -1
        signals = nn.Sequential(nn.Conv1d(3, 4, 3), nn.ReLU(), nn.BatchNorm1d(4), nn.Conv1d(4, 2, 1))
        wide = methods.crelu(signals, torch.zeros(2, 3, 9))
        assert wide[1].axis == 1
        assert wide[2].num_features == wide[2].running_mean.shape[0] == 8
        assert wide[3].in_channels == 8

    def test_a_relu_at_the_output_stays(self):
        model = methods.crelu(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2), nn.ReLU()), torch.zeros(2, 4))
        assert isinstance(model[3], nn.ReLU)
        assert model(torch.zeros(2, 4)).shape == (2, 2)

    def test_draws_depend_on_the_seed_alone(self):
        model, state = small(), torch.get_rng_state()
        one, same, other = (methods.crelu(model, X, seed=seed)[2].weight for seed in (0, 0, 1))
        assert torch.equal(one, same)
        assert not torch.equal(one, other)
        assert torch.equal(torch.get_rng_state(), state)

    def test_what_cannot_become_wider_is_refused(self):
        class Residual(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.fc, self.act = nn.Linear(4, 4), nn.ReLU()

            def forward(self, x: Tensor) -> Tensor:
                return x + self.act(self.fc(x))

        with pytest.raises(ModelError, match="residual block"):
            methods.crelu(Residual(), torch.zeros(2, 4))
        with pytest.raises(ModelError, match="in groups"):
            methods.crelu(nn.Sequential(nn.Conv2d(2, 2, 1), nn.ReLU(), nn.Conv2d(2, 2, 1, groups=2)), torch.zeros(1, 2, 3, 3))
        with pytest.raises(ModelError, match=r"no nn\.ReLU"):
            methods.crelu(nn.Linear(2, 1), X)
