"""Layers that a model has registered under two names, as an attribute and in a list, are one layer."""

import pytest
import torch
from torch import nn

import swr
from swr import methods
from swr.diagnostics import lipschitz_bound
from swr.units import find_units


class Named(nn.Module):
    """As the networks of Continual Backprop's authors: attributes first, then all of them in a list."""

    def __init__(self, run: str):
        super().__init__()
        self.run = run
        self.fc1, self.act, self.fc2, self.out = nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 5), nn.Linear(5, 2)
        self.layers = nn.ModuleList([self.fc1, self.act, self.fc2, self.act, self.out])

    def forward(self, x):
        if self.run == "attributes":
            return self.out(self.act(self.fc2(self.act(self.fc1(x)))))
        for layer in self.layers:
            x = layer(x)
        return x


class Listed(nn.Module):
    """The list first."""

    def __init__(self, run: str):
        super().__init__()
        self.run = run
        self.layers = nn.ModuleList([nn.Linear(4, 6), nn.Linear(6, 5), nn.Linear(5, 2)])
        self.fc1, self.fc2, self.out = self.layers

    def forward(self, x):
        fc1, fc2, out = (self.fc1, self.fc2, self.out) if self.run == "attributes" else self.layers
        return out(fc2(fc1(x).relu()).relu())


class Convolutional(nn.Module):
    """With batch norm, whose running statistics are registered twice too."""

    def __init__(self, run: str):
        super().__init__()
        self.run = run
        self.conv, self.bn, self.relu, self.out = nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Linear(48, 2)
        self.layers = nn.Sequential(self.conv, self.bn, self.relu, nn.Flatten(), self.out)

    def forward(self, x):
        if self.run == "attributes":
            return self.out(self.relu(self.bn(self.conv(x))).flatten(1))
        return self.layers(x)


NETWORKS = {
    Named: ((3, 4), ["fc1", "fc2"]),
    Listed: ((3, 4), ["layers.0", "layers.1"]),
    Convolutional: ((3, 1, 6, 6), ["conv"]),
}


@pytest.fixture(params=["attributes", "list"])
def run(request):
    return request.param


@pytest.fixture(params=NETWORKS, ids=lambda kind: kind.__name__)
def case(request, run):
    torch.manual_seed(0)
    shape, layers = NETWORKS[request.param]
    return request.param(run).double(), torch.randn(shape, dtype=torch.float64), layers


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_its_units_are_found_and_silencing_them_changes_what_it_should(case, training):
    model, x, names = case
    model.train(training)
    units = find_units(model, x)
    assert [layer.name for layer in units.layers] == names
    assert len(units.left_alone) == 1  # the head
    for layer in units.layers:
        seen = []
        hook = model.get_submodule(layer.site.module).register_forward_hook(
            lambda module, args, out, seen=seen, layer=layer: seen.append(layer.site.activation(out))
        )
        before = model(x)
        hook.remove()
        (activation,) = seen
        assert activation.movedim(layer.site.axis, -1).shape[-1] == layer.size
        chosen = torch.arange(layer.size) == int(activation.movedim(layer.site.axis, -1).flatten(0, -2).sum(0).argmax())
        with torch.no_grad():
            for part in layer.consumers:
                model.get_parameter(part.name).masked_fill_(part.mask(chosen), 0.0)
            cut = model(x)
            model.get_parameter(layer.weight)[chosen] += 1.0
            assert not torch.allclose(cut, before)
            torch.testing.assert_close(model(x), cut)


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_its_plan_is_that_of_the_same_layers_registered_once(case, training):
    model, x, _ = case
    model.train(training)
    plan = swr.analyze(model, x)
    assert len(plan.free) == 3
    assert not plan.held
    assert not plan.coupled
    assert plan.verify(model, x) < 1e-3
    if isinstance(model, Convolutional):
        assert set(plan.statistics) == {"bn.running_mean", "bn.running_var"}


def test_its_lipschitz_bound_names_each_layer_once(case):
    model, x, _ = case
    layers = lipschitz_bound(model, x).layers
    weights = [name for name, p in model.named_parameters() if name.endswith("weight")]
    assert list(layers) == weights


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("continual-backprop", {"rate": 0.3, "maturity": 1}),
        ("redo", {"every": 2, "threshold": 2.0}),
    ],
)
def test_methods_that_recycle_units_train_it(case, name, options):
    model, x, _ = case
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    method = methods.build(name, model, x, **options)
    method.attach(optimizer)
    for _ in range(6):
        model(x).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    assert any(not torch.equal(p, before[name]) for name, p in model.named_parameters())
    assert all(p.isfinite().all() for p in model.parameters())
    method.close()
