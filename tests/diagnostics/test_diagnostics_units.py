"""Dormant units and ranks of features: values by hand, functional activations, and where the units lie."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import swr
from nets import cnn, inputs_of, make
from swr.diagnostics import dormant_units, effective_rank, feature_ranks, features, srank, stable_rank, unit_scores


class Fixed(nn.Module):
    """relu of the input, then a head: its scores can be read off the input."""

    def __init__(self, units=3, module=True):
        super().__init__()
        self.body, self.act, self.head = nn.Linear(units, units, bias=False), nn.ReLU(), nn.Linear(units, 1)
        self.body.weight.data = torch.eye(units)
        self.module = module

    def forward(self, x):
        return self.head(self.act(self.body(x)) if self.module else F.relu(self.body(x)))


H = torch.tensor([[1.0, 0.0, 2.0], [3.0, -4.0, 2.0]])


@pytest.mark.parametrize(("module", "name"), [(True, "act"), (False, "relu")])
def test_scores_by_hand_for_modules_and_functions_alike(module, name):
    """E|h| = 2, 0, 2 with mean 4/3."""
    scores = unit_scores(Fixed(module=module), H)
    assert list(scores) == [name]
    assert scores[name].tolist() == pytest.approx([1.5, 0, 1.5])


def test_dormant_units_by_hand():
    x = torch.tensor([[10.0, 0.1, 0.0, 1.9]])  # mean 3: scores 3.33, 0.033, 0, 0.63
    model = Fixed(4)
    assert dormant_units(model, x, threshold=0).dormant == {"act": 1}
    assert dormant_units(model, x).dormant == {"act": 1}
    found = dormant_units(model, x, threshold=0.05)
    assert (found.dormant, found.units, found.fractions, found.total) == ({"act": 2}, {"act": 4}, {"act": 0.5}, 0.5)


def test_in_a_silent_layer_every_unit_is_dormant():
    assert dormant_units(Fixed(), -H.abs()).total == 1
    assert unit_scores(Fixed(), -H.abs())["act"].tolist() == [0, 0, 0]


def test_the_total_weighs_layers_by_their_units():
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1), nn.ReLU(), nn.Linear(1, 2))
    net[2].weight.data.zero_()
    net[2].bias.data.fill_(-1)
    net[0].bias.data.fill_(9)
    found = dormant_units(net, torch.rand(5, 2))
    assert found.fractions == {"1": 0, "3": 1}
    assert found.total == 0.25


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


def test_a_network_without_activations_is_refused():
    with pytest.raises(swr.ModelError, match="without an activation"):
        dormant_units(nn.Linear(3, 2), torch.randn(4, 3))
    with pytest.raises(swr.OptionError, match="τ"):
        dormant_units(Fixed(), H, threshold=-1)


def by_numpy(matrix):
    sigma = np.linalg.svd(matrix.numpy(), compute_uv=False)
    p = sigma[sigma > 0] / sigma.sum()
    k = next(k for k in range(1, len(sigma) + 1) if sigma[:k].sum() >= 0.99 * sigma.sum())
    return np.exp(-(p * np.log(p)).sum()), k, (sigma**2).sum() / sigma[0] ** 2


def test_ranks_agree_with_numpy():
    torch.manual_seed(0)
    for scale in (0.5, 0.9, 1.0):
        matrix = torch.randn(30, 20, dtype=torch.float64) * scale ** torch.arange(20)
        assert (effective_rank(matrix), srank(matrix), stable_rank(matrix)) == pytest.approx(by_numpy(matrix))


def test_ranks_by_hand():
    """Singular values 2, 1, 1: p = 1/2, 1/4, 1/4, entropy 3/2 log 2."""
    matrix = torch.diag(torch.tensor([1.0, 2.0, 1.0]))
    assert effective_rank(matrix) == pytest.approx(2**1.5)
    assert stable_rank(matrix) == pytest.approx(6 / 4)
    assert [srank(matrix, delta) for delta in (0.01, 0.25, 0.5)] == [3, 2, 1]


def test_ranks_of_nothing_are_zero():
    assert (effective_rank(torch.zeros(3, 2)), srank(torch.zeros(3, 2)), stable_rank(torch.zeros(3, 2))) == (0, 0, 0)


def test_penultimate_features_are_what_the_head_reads():
    model = make(cnn)
    x = inputs_of(model)
    with torch.no_grad():
        expected = model[:-1](x)
    torch.testing.assert_close(features(model, x), expected)
    torch.testing.assert_close(features(model, x, "8"), expected)
    assert features(model, x, "1").shape == (8, 4 * 12 * 12)
    ranks = feature_ranks(model, x)
    assert (ranks.effective, ranks.srank, ranks.stable) == pytest.approx(by_numpy(expected))


def test_every_position_of_a_sequence_is_a_row():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    assert features(model, torch.randn(2, 5, 3)).shape == (10, 4)


def test_wrong_layers_and_matrices_are_refused():
    model = make(cnn)
    with pytest.raises(swr.OptionError, match="no module 'body'"):
        features(model, inputs_of(model), "body")
    with pytest.raises(swr.OptionError, match="3 axes"):
        effective_rank(torch.zeros(2, 2, 2))
    with pytest.raises(swr.OptionError, match="δ"):
        srank(torch.eye(2), delta=1)
    with pytest.raises(swr.ModelError, match="name the layer"):
        features(nn.ReLU(), torch.zeros(2, 2))
