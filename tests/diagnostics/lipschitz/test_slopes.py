"""The rule of every operator, against numpy's singular values of the whole matrix or by counting."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from swr.diagnostics import lipschitz_bound
from swr.diagnostics.lipschitz.bound import constants_along, traced_for_bound


def as_matrix(layer, shape):
    """The layer without its bias, one row for every entry of the input."""
    size = math.prod(shape)
    basis = torch.eye(size, dtype=torch.float64).view(size, *shape)
    with torch.no_grad():
        zero = layer(torch.zeros(1, *shape, dtype=torch.float64))
        return (layer(basis) - zero).flatten(1).numpy()


def largest_singular_value(layer, shape):
    return np.linalg.svd(as_matrix(layer, shape), compute_uv=False)[0]


LAYERS = {
    "linear": (lambda: nn.Linear(7, 5), (7,)),
    "conv1d": (lambda: nn.Conv1d(2, 3, 3, stride=2, padding=1), (2, 9)),
    "conv2d": (lambda: nn.Conv2d(2, 3, 3), (2, 6, 7)),
    "padded": (lambda: nn.Conv2d(2, 3, 3, padding=1), (2, 5, 5)),
    "strided": (lambda: nn.Conv2d(2, 3, 3, stride=2, padding=1), (2, 6, 7)),
    "dilated": (lambda: nn.Conv2d(2, 3, 3, dilation=2), (2, 9, 9)),
    "dilated, strided": (lambda: nn.Conv2d(2, 3, 3, stride=2, dilation=2), (2, 13, 13)),
    "grouped": (lambda: nn.Conv2d(4, 6, 3, groups=2, padding=1), (4, 5, 5)),
    "depthwise": (lambda: nn.Conv2d(4, 4, 3, groups=4, stride=3), (4, 7, 7)),
    "same": (lambda: nn.Conv2d(2, 3, 3, padding="same"), (2, 5, 5)),
    "conv3d": (lambda: nn.Conv3d(2, 2, 2, stride=2), (2, 4, 4, 4)),
    "transposed": (lambda: nn.ConvTranspose2d(3, 2, 3, stride=2, padding=1, output_padding=1), (3, 4, 4)),
    "transposed, dilated": (lambda: nn.ConvTranspose2d(4, 4, 3, stride=2, dilation=2, groups=2), (4, 5, 5)),
}


class Each(nn.Module):
    """Every part on an input of its own."""

    def __init__(self, parts):
        super().__init__()
        self.parts = nn.ModuleList(parts)

    def forward(self, *inputs):
        return tuple(part(x) for part, x in zip(self.parts, inputs, strict=True))


def bound_of_each(parts, shapes):
    """The spectral and the Frobenius bound of every part alone, from one trace."""
    model = Each([*parts, nn.Linear(1, 1)]).double()
    traced = traced_for_bound(model, tuple(torch.zeros(2, *shape, dtype=torch.float64) for shape in [*shapes, (1,)]))
    known, _ = constants_along(traced, model)
    return [known[node].constant.tolist() for node in traced.outputs][:-1]


def test_the_spectral_factor_is_numpys_singular_value_and_the_frobenius_factor_is_above_it():
    torch.manual_seed(0)
    layers, shapes = [build() for build, _ in LAYERS.values()], [shape for _, shape in LAYERS.values()]
    bounds = bound_of_each(layers, shapes)
    for name, layer, shape, (spectral, frobenius) in zip(LAYERS, layers, shapes, bounds, strict=True):
        expected = largest_singular_value(layer, shape)
        assert spectral == pytest.approx(expected, rel=1e-4), name
        assert frobenius >= expected, name


def test_the_norm_of_a_flattened_kernel_would_be_no_bound_for_a_convolution():
    """All ones: the operator adds nine equal entries, the kernel's own norm is 3; √9 windows share an entry."""
    layer = nn.Conv2d(1, 1, 3, padding=1, bias=False).double()
    layer.weight.data.fill_(1)
    bound = lipschitz_bound(layer, torch.zeros(1, 1, 20, 20, dtype=torch.float64))
    assert bound.spectral > 8.5
    assert bound.frobenius == pytest.approx(9)


MAPS = {
    "average pooling": (nn.AvgPool2d(2), (1, 6, 6)),
    "overlapping average pooling": (nn.AvgPool2d(3, 2, 1), (1, 7, 7)),
    "average of the real entries": (nn.AvgPool2d(3, 2, 1, count_include_pad=False), (1, 7, 7)),
    "adaptive average": (nn.AdaptiveAvgPool2d(3), (1, 7, 7)),
    "nearest": (nn.Upsample(scale_factor=2), (1, 4, 4)),
    "bilinear": (nn.Upsample(scale_factor=2, mode="bilinear"), (1, 4, 4)),
    "reflection": (nn.ReflectionPad2d(2), (1, 5, 5)),
    "replication": (nn.ReplicationPad2d(2), (1, 5, 5)),
    "circular": (nn.CircularPad2d(1), (1, 5, 5)),
    "zeros": (nn.ZeroPad2d(2), (1, 5, 5)),
}


def test_linear_maps_without_weights_have_their_own_spectral_norm():
    layers, shapes = [layer for layer, _ in MAPS.values()], [shape for _, shape in MAPS.values()]
    for name, layer, shape, bound in zip(MAPS, layers, shapes, bound_of_each(layers, shapes), strict=True):
        assert bound == pytest.approx([largest_singular_value(layer, shape)] * 2, rel=1e-4), name


def test_batch_norm_is_the_diagonal_it_is_in_evaluation():
    layer = nn.BatchNorm2d(3).double().eval()
    layer.weight.data = torch.tensor([1.0, -6.0, 2.0]).double()
    layer.running_var.copy_(torch.tensor([1.0, 4.0, 0.25]))
    bound = lipschitz_bound(layer, torch.zeros(2, 3, 2, 2, dtype=torch.float64))
    assert bound.spectral == pytest.approx(4.0, rel=1e-4)
    assert bound.spectral == pytest.approx(largest_singular_value(layer, (3, 2, 2)))


POOLS = [
    (nn.MaxPool2d(2), 1),
    (nn.MaxPool2d(3, 2), 4),
    (nn.MaxPool2d(3, 1, 1), 9),
    (nn.MaxPool2d(2, 2, dilation=2), 4),
    (nn.MaxPool2d(2, 3), 1),
    (nn.AdaptiveMaxPool2d(3), 1),
    (nn.AdaptiveMaxPool2d(4), 4),
]


def test_max_pooling_counts_the_windows_that_share_an_entry():
    bounds = bound_of_each([pool for pool, _ in POOLS], [(1, 9, 9)] * len(POOLS))
    spikes = torch.eye(81, dtype=torch.float64).view(81, 1, 9, 9)
    for (pool, shared), (bound, _) in zip(POOLS, bounds, strict=True):
        assert bound == pytest.approx(math.sqrt(shared)), pool
        assert pool(spikes).flatten(1).norm(dim=1).max() == pytest.approx(bound), pool


ACTIVATIONS = [
    nn.ReLU(), nn.LeakyReLU(0.3), nn.LeakyReLU(2.0), nn.PReLU(init=1.5), nn.ELU(2.0), nn.SELU(), nn.CELU(0.5), nn.GELU(),
    nn.GELU(approximate="tanh"), nn.SiLU(), nn.Mish(), nn.Softplus(2.0), nn.Hardtanh(), nn.ReLU6(), nn.Hardswish(),
    nn.Hardsigmoid(), nn.Sigmoid(), nn.Tanh(), nn.LogSigmoid(), nn.RReLU(),
]  # fmt: skip


def test_the_slope_of_an_activation_is_its_steepest():
    bounds = bound_of_each(ACTIVATIONS, [(1,)] * len(ACTIVATIONS))
    x = torch.linspace(-12, 12, 100_001, dtype=torch.float64, requires_grad=True)
    for activation, (bound, _) in zip(ACTIVATIONS, bounds, strict=True):
        (slope,) = torch.autograd.grad(activation.eval()(x[:, None]).sum(), x)
        steepest = slope.abs().max().item()
        assert steepest <= bound * (1 + 1e-9), activation
        assert bound <= steepest * 1.001, activation


def test_the_frobenius_factor_counts_the_windows_that_share_an_entry():
    """Both sides by counting: the entries of the larger side, and how many positions of the other each one meets."""
    torch.manual_seed(0)
    convolutions = {name: (build(), shape) for name, (build, shape) in LAYERS.items() if name != "linear"}
    layers, shapes = zip(*convolutions.values(), strict=True)
    for name, layer, shape, (_, frobenius) in zip(convolutions, layers, shapes, bound_of_each(layers, shapes), strict=True):
        met, channels = (0, layer.in_channels) if layer.transposed else (1, layer.out_channels)
        meets = (as_matrix(layer, shape) != 0).sum(met) / (channels // layer.groups)
        shared = (frobenius / layer.weight.norm().item()) ** 2
        assert shared == pytest.approx(meets.max()), name


def test_a_sum_adds_and_a_concatenation_does_not():
    class Twice(nn.Module):
        def __init__(self, join):
            super().__init__()
            self.join, self.one = join, nn.Linear(1, 1)

        def forward(self, x):
            return self.join(self.one(x), self.one(x))

    x = torch.zeros(1, 1)
    added = lipschitz_bound(Twice(torch.add), x)
    joined = lipschitz_bound(Twice(lambda a, b: torch.cat([a, b], 1)), x)
    assert added.spectral == pytest.approx(2 * added.layers["one.weight"][0])
    assert joined.spectral == pytest.approx(math.sqrt(2) * joined.layers["one.weight"][0])
    assert len(added.layers) == 2
