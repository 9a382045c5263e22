"""DSD, Hare & Tortoise and UPGD: what they do around every step, against the rules written out."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from swr import methods
from swr.errors import AttachError, OptionError, StateError
from swr.methods.dsd import largest

from .methods_table import Loop


def vector(*values: float) -> nn.Linear:
    layer = nn.Linear(len(values), 1, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([values]))
    return layer


def entries(layer: nn.Linear) -> list[float]:
    return [round(value, 5) for value in layer.weight.flatten().tolist()]


class TestDSD:
    def test_example(self):
        layer = vector(0.1, -0.5, 0.3, -0.05)
        method = methods.DSD(layer, sparsity=0.5)
        method.new_task()
        assert method.sparse
        assert entries(layer) == [0, -0.5, 0.3, 0]
        layer.weight.data.add_(1)
        method.step()
        assert entries(layer) == [0, 0.5, 1.3, 0]
        method.new_task()
        assert not method.sparse
        layer.weight.data.add_(1)
        method.step()
        assert entries(layer) == [1, 1.5, 2.3, 1]

    def test_of_equal_magnitudes_just_as_many_go_as_asked(self):
        assert largest(torch.ones(10), 0.3).sum() == 7
        assert largest(torch.zeros(3, 3), 1.0).sum() == 0
        assert largest(torch.ones(2, 2), 0.0).all()
        mask = largest(torch.arange(16.0).view(1, 4, 2, 2).to(memory_format=torch.channels_last), 0.5)
        assert mask.flatten().tolist() == [False] * 8 + [True] * 8

    @pytest.mark.parametrize("kind", ["adam", "sgd"])
    def test_pruned_weights_stay_zero_and_return_without_a_jump(self, kind: str):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
        make = {"adam": torch.optim.Adam, "sgd": lambda p, lr: torch.optim.SGD(p, lr=lr, momentum=0.9)}[kind]
        optimizer = make(model.parameters(), lr=0.01)
        method = methods.DSD(model, sparsity=0.5)
        method.attach(optimizer)
        key = "exp_avg" if kind == "adam" else "momentum_buffer"

        def train(steps: int) -> None:
            for _ in range(steps):
                optimizer.zero_grad()
                F.cross_entropy(model(torch.randn(16, 6)), torch.randint(3, (16,))).backward()
                optimizer.step()

        train(20)
        method.new_task()
        pruned = [layer.weight == 0 for layer in (model[0], model[2])]
        assert [int(mask.sum()) for mask in pruned] == [24, 12]
        biases = model[0].bias.detach().clone()
        train(20)
        for layer, mask in zip((model[0], model[2]), pruned, strict=True):
            assert not layer.weight[mask].any()
            assert layer.weight[~mask].all()
            assert not optimizer.state[layer.weight][key][mask].any()
            assert optimizer.state[layer.weight][key][~mask].any()
        assert not torch.equal(model[0].bias, biases)
        method.new_task()
        optimizer.zero_grad()
        model(torch.zeros(1, 6)).sum().mul(0).backward()  # a gradient of zero: only old moments could move them
        optimizer.step()
        assert not model[0].weight[pruned[0]].any()
        train(1)
        assert model[0].weight[pruned[0]].any()

    def test_goes_on_in_its_sparse_phase_in_a_new_object(self):
        loop, again = (Loop("mlp", "dsd", {}, seed=seed) for seed in (0, 1))
        loop.new_task()
        again.method.load_state_dict(loop.method.state_dict())
        assert again.method.sparse
        again.method.step()
        assert (again.model[1].weight == 0).equal(loop.model[1].weight == 0)
        other = Loop("cnn", "dsd", {})
        other.new_task()
        with pytest.raises(StateError, match="another model"):
            again.method.load_state_dict(other.method.state_dict())


class TestHareTortoise:
    def test_example(self):
        layer = vector(1.0)
        method = methods.HareTortoise(layer, momentum=0.9, every=1)
        layer.weight.data.fill_(2.0)
        method.step()
        assert entries(layer) == [1.1]  # φ <- 0.9 + 0.2, and θ <- φ
        layer.weight.data.fill_(2.1)
        assert method.state_dict()["slow"]["weight"].item() == pytest.approx(1.1)  # its own storage
        method.step()
        assert entries(layer) == [1.2]

    def test_resets_at_every_rth_step_only(self):
        layer = vector(0.0)
        method = methods.HareTortoise(layer, momentum=0.5, every=3)
        found = []
        for _ in range(6):
            layer.weight.data.add_(1.0)
            method.step()
            found.append(layer.weight.item())
        assert found == [1, 2, 2.125, 3.125, 4.125, pytest.approx(2.125 + 2.125)]

    def test_the_model_is_evaluated_with_the_tortoise_and_trained_with_the_hare(self):
        layer = vector(1.0)
        method = methods.HareTortoise(layer, momentum=0.9, every=float("inf"))
        layer.weight.data.fill_(2.0)
        method.step()
        one = torch.ones(1, 1)
        assert layer.train()(one).item() == pytest.approx(2.0)
        with torch.inference_mode():
            assert layer.eval()(one).item() == pytest.approx(1.1)
        with torch.no_grad():
            assert layer(one).item() == pytest.approx(1.1)
        assert layer(one).item() == pytest.approx(1.1)
        assert entries(layer) == [2.0]
        with method.tortoise():
            assert entries(layer) == [1.1]
            assert layer(one).item() == pytest.approx(1.1)
            assert entries(layer) == [1.1]
        assert entries(layer) == [2.0]
        method.close()
        assert layer(one).item() == pytest.approx(2.0)

    def test_the_hare_is_back_after_a_call_that_fails_and_can_be_trained_on(self):
        layer = vector(1.0)
        method = methods.HareTortoise(layer, momentum=0.9)
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
        method.attach(optimizer)
        layer.weight.data.fill_(2.0)
        with pytest.raises(RuntimeError, match="shapes"), torch.no_grad():
            layer.eval()(torch.ones(1, 7))
        assert entries(layer) == [2.0]
        with torch.inference_mode():
            layer(torch.ones(1, 1))
        layer.train()(torch.ones(1, 1)).sum().backward()
        optimizer.step()
        assert entries(layer) == [1.9]

    def test_averages_running_statistics_and_leaves_whole_numbers_alone(self):
        model = nn.BatchNorm1d(2)
        method = methods.HareTortoise(model, momentum=0.75, every=2)
        for _ in range(2):
            model.running_mean.fill_(4.0)
            model.num_batches_tracked.add_(1)
            method.step()
        assert model.running_mean.tolist() == [1.75, 1.75]
        assert model.num_batches_tracked.item() == 2
        assert model.num_batches_tracked.dtype == torch.int64


def written_out(parameters: list[Tensor], state: dict, noise: list[Tensor] | None, adam: bool, **hyper: float) -> None:
    """The authors' rule, parameter by parameter: their first-order optimizer, or the adaptive one."""
    state["t"] = state.get("t", 0) + 1
    t, lr, decay = state["t"], hyper["lr"], hyper["decay"]
    for i, p in enumerate(parameters):
        u = state.setdefault(("u", i), torch.zeros_like(p))
        u.mul_(decay).add_(-p.grad * p.data, alpha=1 - decay)
    top = max(state["u", i].max() for i in range(len(parameters)))
    for i, p in enumerate(parameters):
        direction = p.grad
        if adam:
            m, v = (state.setdefault((k, i), torch.zeros_like(p)) for k in "mv")
            m.mul_(0.9).add_(p.grad, alpha=0.1)
            v.mul_(0.999).add_(p.grad**2, alpha=0.001)
            direction = (m / (1 - 0.9**t)) / ((v / (1 - 0.999**t)).sqrt() + 1e-8)
        free = 1 - torch.sigmoid(state["u", i] / (1 - decay**t) / top)
        xi = torch.zeros_like(p) if noise is None else noise[i]
        p.data.mul_(1 - lr * hyper["weight_decay"]).add_((direction + xi) * free, alpha=-lr)


class TestUPGD:
    def test_example(self):
        layer = vector(2.0, -1.0)
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
        methods.UPGD(layer, decay=0.0, noise=0.0).attach(optimizer)
        layer.weight.grad = torch.tensor([[-0.5, 0.5]])
        optimizer.step()
        assert entries(layer) == [2.01345, -1.01888]

    @pytest.mark.parametrize("adam", [True, False])
    @pytest.mark.parametrize("fused", [True, False])
    def test_is_the_authors_rule_for_sgd_and_for_adam(self, adam: bool, fused: bool):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 3)).double()
        literal = copy.deepcopy(model)
        hyper = {"decay": 0.9, "weight_decay": 0.1}
        kind = torch.optim.Adam if adam else torch.optim.SGD
        optimizer = kind(model.parameters(), lr=0.05, fused=fused)
        method = methods.UPGD(model, noise=0.1, **hyper)
        method.attach(optimizer)
        generator, state = torch.Generator().manual_seed(0), {}
        parameters = list(literal.parameters())
        sizes = [p.numel() for p in parameters]
        for _ in range(12):
            inputs, labels = torch.randn(8, 5, dtype=torch.float64), torch.randint(3, (8,))
            for one in (model, literal):
                one.zero_grad()
                F.cross_entropy(one(inputs), labels).backward()
            optimizer.step()
            drawn = 0.1 * torch.randn(sum(sizes), generator=generator)
            noise = [part.view(p.shape).double() for part, p in zip(drawn.split(sizes), parameters, strict=True)]
            written_out(parameters, state, noise, adam, lr=0.05, **hyper)
        for p, q in zip(model.parameters(), parameters, strict=True):
            torch.testing.assert_close(p, q, rtol=1e-9, atol=1e-10)

    def test_unprotected_only_the_noise_is_gated(self):
        torch.manual_seed(0)
        layer, plain = vector(2.0, -1.0), vector(2.0, -1.0)
        optimizers = [torch.optim.SGD(one.parameters(), lr=0.1) for one in (layer, plain)]
        methods.UPGD(layer, decay=0.0, noise=0.5, protecting=False, seed=3).attach(optimizers[0])
        for one, optimizer in zip((layer, plain), optimizers, strict=True):
            one.weight.grad = torch.tensor([[-0.5, 0.5]])
            optimizer.step()
        noise = 0.5 * torch.randn(2, generator=torch.Generator().manual_seed(3))
        free = 1 - torch.sigmoid(torch.tensor([1.0, 0.5]))
        torch.testing.assert_close(layer.weight, plain.weight - 0.1 * noise * free)

    def test_by_hand_and_what_is_missing_is_said(self):
        layer = vector(2.0, -1.0)
        method = methods.UPGD(layer, decay=0.0, noise=0.0)
        layer.weight.grad = torch.tensor([[-0.5, 0.5]])
        with pytest.raises(AttachError, match=r"attach the optimizer, or call before_step\(optimizer\)"):
            method.before_step()
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
        method.before_step(optimizer)
        optimizer.step()
        method.step()
        assert entries(layer) == [2.01345, -1.01888]
        with pytest.raises(OptionError, match="below 1"):
            methods.UPGD(layer, decay=1.0)

    def test_parameters_without_gradient_or_of_another_optimizer_are_left_alone(self):
        model = nn.ModuleList([vector(1.0, 2.0), vector(3.0), vector(4.0)])
        optimizer = torch.optim.SGD([model[0].weight, model[1].weight], lr=0.1)
        methods.UPGD(model, noise=1.0, decay=0.0).attach(optimizer)
        model[0].weight.grad, model[2].weight.grad = torch.ones(1, 2), torch.ones(1, 1)
        optimizer.step()
        assert entries(model[0]) != [1.0, 2.0]
        assert entries(model[1]) == [3.0]
        assert entries(model[2]) == [4.0]

    @pytest.mark.parametrize("fused", [True, False])
    def test_a_gradient_scaler_changes_nothing_and_a_skipped_step_nothing_at_all(self, fused: bool):
        results = []
        for scale in (None, 1024.0):
            torch.manual_seed(0)
            model = nn.Linear(4, 3)
            optimizer = torch.optim.Adam(model.parameters(), lr=0.1, fused=fused)
            method = methods.UPGD(model, noise=0.1, weight_decay=0.1, decay=0.9)
            method.attach(optimizer)
            scaler = torch.amp.GradScaler("cpu", init_scale=scale or 1.0, enabled=scale is not None)
            for step in range(5):
                if step == 2:
                    if scale is None:
                        continue
                    before, utility = model.weight.detach().clone(), method.state_dict()["utility"]["weight"].clone()
                    numbers = method.generator.get_state()
                loss = model(torch.full((2, 4), 1.0 + step)).square().mean() * (float("inf") if step == 2 else 1.0)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
                if step == 2:
                    assert torch.equal(model.weight, before)
                    assert torch.equal(method.state_dict()["utility"]["weight"], utility)
                    method.generator.set_state(numbers)
                    method._time = 2
            results.append(model.weight.detach())
        torch.testing.assert_close(*results, rtol=1e-5, atol=1e-6)
