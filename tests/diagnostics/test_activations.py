"""Which activations are recorded, under which names, and on which axis the units are."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from nets import cnn, inputs_of, make
from swr.diagnostics import unit_scores
from swr.diagnostics.activations import Watched


def test_units_of_a_convolution_are_its_channels_over_all_positions():
    model = make(cnn)
    x = inputs_of(model)
    expected = torch.relu(model[0](x)).abs().mean((0, 2, 3))
    scores = unit_scores(model, x)
    assert {name: len(s) for name, s in scores.items()} == {"1": 4, "4": 4, "8": 10}
    torch.testing.assert_close(scores["1"], (expected / expected.mean()).detach())


class Tokens(nn.Module):
    """A sequence (batch, time, features) or a signal (batch, channels, time): three axes, but the units lie elsewhere."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return F.gelu(self.layer(x)).sum((1, 2))


@pytest.mark.parametrize(
    ("layer", "shape", "units"),
    [
        (nn.Linear(4, 6), (2, 5, 4), 6),
        (nn.Conv1d(4, 6, 2), (2, 4, 9), 6),
        (nn.Conv1d(4, 6, 2), (4, 9), 6),  # without a batch
        (nn.Linear(4, 6), (2, 3, 5, 4), 6),
        (nn.ConvTranspose2d(4, 6, 2), (2, 4, 5, 5), 6),
    ],
)
def test_units_lie_where_the_layer_before_writes_them(layer, shape, units):
    if len(shape) == 2:
        model = nn.Sequential(layer, nn.GELU(), nn.Flatten(0), nn.LazyLinear(1))
        model(torch.randn(shape))
        scores = unit_scores(model, torch.randn(shape))
    else:
        scores = unit_scores(Tokens(layer), torch.randn(shape))
    assert [s.numel() for s in scores.values()] == [units]


def test_an_in_place_activation_and_a_method_count_and_repeats_have_their_own_names():
    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c, self.act = nn.Linear(3, 4), nn.Linear(4, 5), nn.Linear(5, 6), nn.ReLU(inplace=True)

        def forward(self, x):
            x = self.act(self.a(x))
            x = self.act(self.b(x))
            x = self.c(x).relu_()
            return x.tanh().relu().sum(1)

    counts = {name: len(s) for name, s in unit_scores(Mixed(), torch.randn(7, 3)).items()}
    assert counts == {"act": 4, "act_2": 5, "relu": 6, "tanh": 6, "relu_2": 6}


def test_an_activation_at_the_output_is_not_hidden():
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2), nn.Sigmoid())
    assert list(unit_scores(net, torch.randn(5, 3))) == ["1"]


def test_a_transformer_is_counted_in_evaluation_too():
    """Its fused path for inference would hide the activations."""
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    model = nn.Sequential(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(8, 3))
    counts = [len(s) for s in unit_scores(model.eval(), torch.randn(2, 5, 8)).values()]
    assert counts == [16, 16]


def test_each_activation_knows_the_weight_before_it_and_keeps_its_units_if_asked():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.out = nn.Conv1d(2, 3, 2), nn.Linear(4, 5), nn.Linear(5, 1)

        def forward(self, x):
            return torch.sigmoid(self.out(F.relu_(self.b(torch.tanh(self.a(x))))))

    x = torch.randn(700, 2, 5)
    model = Net()
    seen = Watched(model, x, keep=True)
    assert seen.weights == {"tanh": "a.weight", "relu": "b.weight"}  # the output is not hidden
    assert {name: units.shape[1] for name, units in seen.units.items()} == {"tanh": 3, "relu": 5}
    assert all(len(units) <= 1024 for units in seen.units.values())
    assert Watched(model, x).units == {}
    expected = torch.tanh(model.a(x)).movedim(1, -1).flatten(0, 1).detach()
    torch.testing.assert_close(seen.units["tanh"], expected[::3])
