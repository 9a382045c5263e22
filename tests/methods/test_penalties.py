"""Penalties: their values and gradients against numpy, the formulas written out, and the examples of their papers."""

import copy
import pickle

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from swr import methods
from swr.errors import ModelError, OptionError
from swr.methods.effective_rank import spectral_spread
from swr.methods.parseval import parseval
from swr.methods.wasserstein import matched

from .methods_table import MODELS, Tied


def linear(weight: list[list[float]], bias: list[float] | None = None) -> nn.Linear:
    rows = torch.tensor(weight)
    layer = nn.Linear(rows.shape[1], rows.shape[0], bias=bias is not None)
    layer.weight.data = rows
    if bias is not None:
        layer.bias.data = torch.tensor(bias)
    return layer


def double(network: str) -> nn.Module:
    torch.manual_seed(0)
    return MODELS[network][0]().double()


def moved(model: nn.Module) -> None:
    generator = torch.Generator().manual_seed(3)
    for p in model.parameters():
        p.data += 0.1 * torch.randn(p.shape, generator=generator, dtype=p.dtype)


def gradients(value: Tensor, model: nn.Module) -> list[Tensor]:
    found = torch.autograd.grad(value, list(model.parameters()), allow_unused=True)
    return [torch.zeros_like(p) if g is None else g for g, p in zip(found, model.parameters(), strict=True)]


def close(one: Tensor, other: object, rtol: float = 1e-9, atol: float = 1e-9) -> None:
    torch.testing.assert_close(one.detach(), torch.as_tensor(other, dtype=one.dtype), rtol=rtol, atol=atol)


# Wasserstein


def test_wasserstein_matches_the_sorted_entries():
    layer = linear([[0.0, 1.0, 5.0]])
    method = methods.Wasserstein(layer, coefficient=0.5)
    layer.weight.data = torch.tensor([[3.0, 1.0, 2.0]])
    penalty = method.penalty()
    assert penalty.item() == 0.5 * 6
    penalty.backward()
    assert (layer.weight.grad / 0.5).tolist() == [[-4.0, 2.0, 2.0]]


def test_wasserstein_of_any_permutation_is_zero():
    layer = nn.Conv2d(3, 4, 3)
    method = methods.Wasserstein(layer)
    layer.weight.data = layer.weight.data.flatten()[torch.randperm(layer.weight.numel())].view_as(layer.weight)
    assert method.value().item() == 0
    layer.weight.data[0, 0, 0, 0] += 1
    assert method.value().item() > 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_entries_are_matched_in_their_order_whatever_their_precision(dtype: torch.dtype):
    values = torch.cat([torch.randn(2000), torch.tensor([0.0, -0.0, 1e-42, -1e-42, 1e30, -1e30, torch.inf, -torch.inf])])
    values = values.to(dtype)
    targets = torch.arange(len(values), dtype=torch.float64)
    assert torch.equal(values[matched(values, targets).argsort()], values.sort().values)


@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize("network", ["mlp", "cnnbn"])
def test_wasserstein_equals_the_formula_with_its_gradient_and_never_exceeds_l2_init(network: str, reduction: str):
    model = double(network)
    initial = [p.detach().clone() for p in model.parameters()]
    method = methods.Wasserstein(model, coefficient=1.0, reduction=reduction)
    moved(model)
    literal = 0.0
    for p, p0 in zip(model.parameters(), initial, strict=True):
        squares = (p.reshape(-1).sort().values - p0.reshape(-1).sort().values).square()
        literal = literal + (squares.sum() if reduction == "sum" else squares.mean())
    value = method.value()
    close(value, literal)
    for one, other in zip(gradients(value, model), gradients(literal, model), strict=True):
        close(one, other)
    distance = sum((p - p0).square().sum() for p, p0 in zip(model.parameters(), initial, strict=True))
    assert reduction == "mean" or 0 < value < distance


# spectral norms


def svd(matrix: Tensor) -> tuple[float, np.ndarray, np.ndarray]:
    u, s, vt = np.linalg.svd(matrix.detach().numpy())
    return s[0], u[:, 0], vt[0]


def test_spectral_norm_of_a_diagonal_matrix():
    layer = linear([[2.0, 0.0], [0.0, 0.5]])
    method = methods.SpectralNorm(layer, coefficient=0.01)
    penalty = method.penalty()
    penalty.backward()
    close(penalty, 0.02, 1e-6)
    close(layer.weight.grad, [[0.02, 0.0], [0.0, 0.0]], atol=1e-6)


LAYERS = {
    "wide": lambda: nn.Linear(40, 20),
    "tall": lambda: nn.Linear(10, 30),
    "one unit": lambda: nn.Linear(5, 1),
    "convolution": lambda: nn.Conv2d(5, 7, 3),
    "channels last": lambda: nn.Conv2d(5, 7, 3).to(memory_format=torch.channels_last),
    "one dimension": lambda: nn.Conv1d(4, 6, 3),
}


@pytest.mark.parametrize("kind", LAYERS)
def test_power_iteration_finds_the_largest_singular_value_and_its_gradient(kind: str):
    torch.manual_seed(0)
    layer = LAYERS[kind]().double()
    method = methods.SpectralNorm(layer, coefficient=0.3)
    sigma, u, v = svd(layer.weight.flatten(1))
    for _ in range(50):
        penalty = method.penalty()
    close(penalty, 0.3 / 2 * sigma**2, 1e-3)
    assert penalty.item() <= 0.3 / 2 * sigma**2 + 1e-12
    for _ in range(350):
        penalty = method.penalty()
    close(penalty, 0.3 / 2 * sigma**2)
    (gradient,) = torch.autograd.grad(penalty, [layer.weight])
    close(gradient.flatten(1), 0.3 * sigma * np.outer(u, v), atol=1e-6)


def test_power_iteration_follows_weights_that_move_with_one_iteration_a_step():
    torch.manual_seed(0)
    layer = nn.Linear(30, 20).double()
    method = methods.SpectralNorm(layer)
    drift = torch.randn(20, 30, dtype=torch.float64)
    for _ in range(400):
        layer.weight.data.add_(drift, alpha=1e-3)
        method.penalty()
    close(method.norms()[0], svd(layer.weight)[0], 1e-4)


def test_a_transposed_convolution_has_its_outputs_as_rows():
    layer = nn.ConvTranspose2d(4, 6, 3).double()
    method = methods.SpectralNorm(layer)
    for _ in range(80):
        method.penalty()
    close(method.norms()[0], svd(layer.weight.transpose(0, 1).flatten(1))[0], 1e-6)


def test_a_second_look_leaves_the_vectors():
    layer = nn.Linear(6, 5)
    method = methods.SpectralNorm(layer)
    moved(layer)
    before = method.state_dict()["vectors"]
    first, second = method.penalty(update=False), method.penalty(update=False)
    assert first == second
    assert torch.equal(method.state_dict()["vectors"]["weight"], before["weight"])
    method.penalty()
    assert not torch.equal(method.state_dict()["vectors"]["weight"], before["weight"])


def test_a_layer_that_was_zero_for_a_while_is_found_again():
    layer = nn.Linear(6, 5)
    weight = layer.weight.detach().clone()
    layer.weight.data.zero_()
    method = methods.SpectralNorm(layer)
    penalty = method.penalty()
    penalty.backward()
    assert penalty.item() == 0
    assert torch.equal(layer.weight.grad, torch.zeros(5, 6))
    layer.weight.data.copy_(weight)
    for _ in range(60):
        method.penalty()
    close(method.norms()[0], svd(weight)[0], 1e-4)


def test_spectral_regularisation_of_a_diagonal_matrix_and_a_bias():
    layer = linear([[2.0, 0.0], [0.0, 0.5]], [0.0, 0.0])
    method = methods.Spectral(layer, coefficient=1.0)
    penalty = method.penalty()
    penalty.backward()
    close(penalty, 9.0, 1e-5)
    close(layer.weight.grad, [[24.0, 0.0], [0.0, 0.0]], 1e-4, 1e-3)
    layer.weight.data = torch.eye(2)
    layer.bias.data = torch.tensor([3.0, 4.0])
    close(method.penalty(), 625.0, 1e-5)


@pytest.mark.parametrize("power", [2, 3])
def test_spectral_regularisation_counts_matrices_biases_gains_and_shifts(power: int):
    model = double("cnnbn")
    method = methods.Spectral(model, coefficient=0.1, power=power)
    moved(model)
    for _ in range(150):
        method.penalty()
    literal = 0.0
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            literal += (module.weight - 1).square().sum().item() + module.bias.norm().item() ** (2 * power)
        elif isinstance(module, (nn.Linear, nn.Conv2d)):
            literal += (svd(module.weight.flatten(1))[0] ** power - 1) ** 2 + module.bias.norm().item() ** (2 * power)
    close(method.penalty(), 0.1 * literal, 1e-6)
    (gradient,) = torch.autograd.grad(method.penalty(), [model[1].weight])
    close(gradient, 0.2 * (model[1].weight - 1))


def test_spectral_regularisation_has_a_gradient_at_a_zero_bias():
    layer = linear([[2.0]], [0.0])
    methods.Spectral(layer, coefficient=1.0).penalty().backward()
    assert layer.bias.grad.tolist() == [0.0]


# effective rank


def test_effective_rank_is_the_spread_of_the_squared_singular_values():
    features = torch.tensor([[3.0, 0.0], [0.0, 1.0], [0.0, 0.0]], requires_grad=True)
    value = spectral_spread(features)
    value.backward()
    assert value.item() == pytest.approx(8)
    close(features.grad, [[6.0, 0.0], [0.0, -2.0], [0.0, 0.0]], atol=1e-6)


@pytest.mark.parametrize("shape", [(20, 7), (7, 20), (1, 5), (5, 1)])
def test_effective_rank_agrees_with_numpy_and_finite_differences(shape: tuple[int, int]):
    features = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    s = np.linalg.svd(features.detach().numpy(), compute_uv=False)
    close(spectral_spread(features), s[0] ** 2 - s[-1] ** 2)
    assert torch.autograd.gradcheck(spectral_spread, [features])


@pytest.mark.parametrize("features", [torch.zeros(4, 3), torch.eye(4), torch.ones(4, 3)])
def test_coinciding_singular_values_have_finite_gradients(features: Tensor):
    features = features.clone().requires_grad_()
    spectral_spread(features).backward()
    assert features.grad.isfinite().all()


def test_the_features_are_what_entered_the_head_in_the_last_training_pass():
    model = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
    method = methods.EffectiveRank(model, coefficient=0.5)
    assert method.penalty() is None
    x = torch.randn(8, 6)
    model(x)
    model.eval()
    model(torch.randn(4, 6))
    model.train()
    with torch.no_grad():
        model(torch.randn(4, 6))
    penalty = method.penalty()
    close(penalty, 0.5 * spectral_spread(model[1](model[0](x))), 1e-5)
    penalty.backward()
    assert model[0].weight.grad.abs().sum() > 0
    assert model[2].weight.grad is None
    assert method.penalty() is None  # one forward pass, one penalty


def test_a_copied_or_pickled_model_does_not_speak_to_the_method():
    model = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
    method = methods.EffectiveRank(model)
    model(torch.randn(8, 6))
    method.penalty()
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        other(torch.randn(8, 6))
        assert method.penalty() is None


def test_features_of_sequences_count_every_position():
    model = nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 3))
    method = methods.EffectiveRank(model, coefficient=1.0, head="1")
    x = torch.randn(2, 4, 6)
    model(x)
    close(method.penalty(), spectral_spread(model[0](x).reshape(8, 5)), 1e-5)


def test_a_head_that_cannot_be_found_is_said():
    with pytest.raises(ModelError, match=r"no nn\.Linear"):
        methods.EffectiveRank(nn.Conv2d(1, 1, 1))
    with pytest.raises(OptionError, match=r"name of an nn\.Linear of the model \(0\), found '1'"):
        methods.EffectiveRank(nn.Sequential(nn.Linear(1, 1), nn.ReLU()), head="1")


# Parseval


def test_parseval_of_the_papers_kind_of_matrices():
    assert parseval(torch.tensor([[[1.0, 1.0], [0.0, 2.0]]]), 2.0).item() == 12
    rotation = nn.init.orthogonal_(torch.empty(5, 5), gain=2**0.5)
    assert parseval(rotation[None], 2.0).item() == pytest.approx(0, abs=1e-10)


@pytest.mark.parametrize("shape", [(4, 4), (3, 7), (7, 3), (1, 5)])
def test_parseval_agrees_with_the_large_product_and_the_known_gradient(shape: tuple[int, int]):
    layer = nn.Linear(shape[1], shape[0], bias=False).double()
    method = methods.Parseval(layer, coefficient=0.1, scale=1.5, head=True)
    w = layer.weight.detach().numpy()
    difference = w @ w.T - 1.5 * np.eye(len(w))
    penalty = method.penalty()
    close(penalty, 0.1 * (difference**2).sum())
    (gradient,) = torch.autograd.grad(penalty, [layer.weight])
    close(gradient, 4 * 0.1 * difference @ w)


def test_parseval_spares_the_head_and_takes_groups_apart():
    model = nn.Sequential(nn.Conv2d(4, 6, 3, groups=2), nn.Flatten(), nn.Linear(6, 3))
    value = methods.Parseval(model, coefficient=1.0, scale=2.0).value()
    halves = model[0].weight.detach().flatten(1).split(3)
    close(value, sum((w @ w.T - 2 * torch.eye(3)).square().sum() for w in halves), 1e-5)
    assert gradients(value, model)[2].abs().sum() == 0
    assert methods.Parseval(model, scale=2.0, head=True).value() > value
    assert methods.Parseval(nn.Linear(2, 2)).penalty() is None


# all of them

PENALTIES = ["wasserstein", "spectral-norm", "spectral", "parseval"]


@pytest.mark.parametrize("name", PENALTIES)
def test_a_tied_weight_counts_once(name: str):
    tied, plain = Tied(), nn.Sequential(nn.Linear(6, 6, bias=False), nn.Linear(6, 5))
    for model in (tied, plain):
        for p in model.parameters():
            p.data = torch.linspace(-1, 2, p.numel()).view(p.shape) if p.ndim > 1 else torch.zeros_like(p)
    values = []
    for model in (tied, plain):
        method = methods.build(name, model, coefficient=1.0)
        for p in model.parameters():
            p.data = p.data * (1.5 if p.ndim > 1 else 1.0)
        values.append(method.penalty().item())
    assert values[0] == pytest.approx(values[1], rel=1e-5)
    assert values[0] > 0


@pytest.mark.parametrize("name", [*PENALTIES, "effective-rank"])
def test_autocast_does_not_lower_the_precision_of_a_penalty(name: str):
    results = []
    for enabled in (True, False):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(16, 24), nn.Linear(24, 8))
        method = methods.build(name, model, coefficient=1.0)
        moved(model)
        x = torch.randn(5, 16)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            model(x)
            penalty = method.penalty()
        assert penalty.dtype is torch.float32
        results.append(penalty.item())
    rough = 1e-2 if name == "effective-rank" else 1e-7  # there the features themselves are bfloat16
    assert results[0] == pytest.approx(results[1], rel=rough)


@pytest.mark.parametrize("name", PENALTIES)
def test_frozen_weights_are_not_penalised(name: str):
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.Linear(4, 4))
    for p in model[0].parameters():
        p.requires_grad_(False)
    method = methods.build(name, model, coefficient=1.0)
    moved(model)
    before = method.penalty().item()
    for p in model[0].parameters():
        p.data += 10
    assert method.penalty().item() == pytest.approx(before, rel=0.05)


@pytest.mark.parametrize("name", PENALTIES)
def test_a_16_bit_network_is_measured_in_single_precision(name: str):
    model = nn.Sequential(nn.Linear(16, 24), nn.Linear(24, 8)).to(torch.bfloat16)
    single = copy.deepcopy(model).float()
    values = []
    for one in (model, single):
        method = methods.build(name, one, coefficient=1.0)
        for p in one.parameters():
            p.data.mul_(2)
        value = method.penalty()
        value.backward()
        values.append(value.item())
    assert values[0] == pytest.approx(values[1], rel=1e-5)
    assert model[0].weight.grad.dtype is torch.bfloat16


def test_the_input_projections_of_an_attention_count():
    attention = nn.MultiheadAttention(4, 2)
    method = methods.SpectralNorm(attention)
    assert list(method.state_dict()["vectors"]) == ["in_proj_weight", "out_proj.weight"]
    apart = nn.MultiheadAttention(4, 2, kdim=3, vdim=5)
    assert len(methods.SpectralNorm(apart).state_dict()["vectors"]) == 4


def test_wrong_options_are_said():
    layer = nn.Linear(2, 2)
    with pytest.raises(OptionError, match="reduction must be 'sum' or 'mean', found 'max'"):
        methods.Wasserstein(layer, reduction="max")
    with pytest.raises(OptionError, match="power k must be a whole number"):
        methods.Spectral(layer, power=1.5)
    with pytest.raises(OptionError, match="scale s must be a number above 0"):
        methods.Parseval(layer, scale=0)
