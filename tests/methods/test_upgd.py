"""UPGD against the authors' rule written out."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from swr import methods
from swr.errors import AttachError, OptionError

from .anneal_helpers import entries, vector


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
