"""Projections: what a step does to the weights, against the formulas, numpy, and the examples of their papers."""

import copy
from math import inf

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from swr import methods
from swr.errors import InputsError, ModelError, OptionError
from swr.methods.lipschitz_projection import operator_norm
from swr.methods.nap import joint_factor
from swr.methods.tools.layers import affine_layers
from swr.methods.tools.spectral_norms import input_sizes, operator_map

from .methods_table import MODELS, Tied, changed


def with_weight(weight: list[list[float]]) -> nn.Linear:
    rows = torch.tensor(weight)
    layer = nn.Linear(rows.shape[1], rows.shape[0])
    layer.weight.data = rows
    return layer


def close(one: Tensor, other: object, rtol: float = 1e-6, atol: float = 1e-7) -> None:
    torch.testing.assert_close(one.detach(), torch.as_tensor(other, dtype=one.dtype), rtol=rtol, atol=atol)


def double(network: str) -> nn.Module:
    torch.manual_seed(0)
    return MODELS[network][0]().double()


def grow(model: nn.Module, factor: float = 3.0) -> None:
    for p in model.parameters():
        p.data.mul_(factor).add_(0.01)


# Weight Rescaling


@pytest.mark.parametrize(
    ("centred", "expected"),
    [(False, [[0.4472, 1.3416], [2.2361, 3.1305]]), (True, [[2.6584, 3.5528], [4.4472, 5.3416]])],
)
def test_weight_rescaling_returns_to_the_initial_deviation(centred: bool, expected: list[list[float]]):
    layer = with_weight([[-1.0, 1.0], [1.0, -1.0]])  # deviation 1
    method = methods.WeightRescaling(layer, centred=centred)
    layer.weight.data = torch.tensor([[1.0, 3.0], [5.0, 7.0]])
    method.step()
    close(layer.weight, expected, atol=1e-4)
    assert layer.weight.std(correction=0).item() == pytest.approx(1, rel=1e-6)


@pytest.mark.parametrize("per", ["layer", "channel"])
@pytest.mark.parametrize("network", ["cnnbn", "mlp"])
def test_weight_rescaling_equals_numpy_in_double_precision(per: str, network: str):
    model = double(network)
    initial = copy.deepcopy(model)
    method = methods.WeightRescaling(model, per=per, multiplier=0.7)
    grow(model)
    before = copy.deepcopy(model)
    method.step()
    for old, start, new in zip(before.modules(), initial.modules(), model.modules(), strict=True):
        if isinstance(new, (nn.Linear, nn.Conv2d)):
            w, w0 = (layer.weight.detach().numpy() for layer in (old, start))
            axes = tuple(range(0 if per == "layer" else 1, w.ndim))
            mean, s, s0 = w.mean(axes, keepdims=True), w.std(axes, keepdims=True), w0.std(axes, keepdims=True)
            close(new.weight, mean + 0.7 * s0 / s * (w - mean), 1e-12)
            assert torch.equal(new.bias, old.bias)
        elif isinstance(new, nn.BatchNorm2d):
            assert torch.equal(new.weight, old.weight)


def test_weight_rescaling_acts_at_every_nth_step_only():
    layer = nn.Linear(3, 3)
    method = methods.WeightRescaling(layer, every=3)
    grow(layer)
    before = layer.weight.detach().clone()
    method.step()
    method.step()
    assert torch.equal(layer.weight, before)
    method.step()
    assert not torch.equal(layer.weight, before)


@pytest.mark.parametrize("per", ["layer", "channel"])
def test_constant_and_single_weights_have_no_deviation_and_stay(per: str):
    model = nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 3), nn.Linear(3, 3), nn.Linear(3, 3))
    nn.init.constant_(model[2].weight, 0.5)
    method = methods.WeightRescaling(model, per=per)
    for layer in model:
        layer.weight.data += torch.randn_like(layer.weight)
    before = copy.deepcopy(model.state_dict())
    method.step()
    assert changed(before, model.state_dict()) == ({"1.weight", "3.weight"} if per == "layer" else {"3.weight"})


# weight clipping


def test_clipping_keeps_to_the_bound_of_the_fan_in():
    layer = nn.Linear(4, 3)
    layer.bias.data = torch.tensor([0.7, -0.6, 0.2])
    layer.weight.data[0] = torch.tensor([9.0, -9.0, 0.25, -0.25])
    before = layer.bias.detach().clone()
    methods.WeightClipping(layer, bound=1.0).step()
    close(layer.bias, [0.5, -0.5, 0.2])
    assert (layer.bias != before).float().mean().item() == pytest.approx(2 / 3)
    assert layer.weight[0].tolist() == [0.5, -0.5, 0.25, -0.25]


@pytest.mark.parametrize("network", MODELS)
def test_clipping_at_one_leaves_a_new_network_as_torch_made_it(network: str):
    model = MODELS[network][0]()
    before = copy.deepcopy(model.state_dict())
    method = methods.WeightClipping(model)
    method.step()
    assert not changed(before, model.state_dict())  # gains of 1 included
    grow(model)
    method.step()
    for layer in affine_layers(model):
        bound = layer.weight[0].numel() ** -0.5
        assert layer.weight.abs().max().item() == pytest.approx(bound, rel=1e-6)


def test_clipping_spares_the_head_on_request():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    grow(model, 100.0)
    before = copy.deepcopy(model.state_dict())
    methods.WeightClipping(model, head=False).step()
    assert changed(before, model.state_dict()) == {"0.weight", "0.bias"}


def test_both_biases_behind_a_tied_weight_are_clipped():
    model = Tied()
    grow(model, 100.0)
    methods.WeightClipping(model).step()
    assert model.first.bias.abs().max() <= 6**-0.5
    assert model.second.bias.abs().max() <= 6**-0.5


# NaP


def test_nap_returns_to_the_initial_norm():
    layer = with_weight([[1.5, 2.0]])
    method = methods.NaP(layer)
    layer.weight.data = torch.tensor([[3.0, 4.0]])
    method.step()
    close(layer.weight, [[1.5, 2.0]])


def test_nap_projects_gain_and_shift_together():
    layer = nn.BatchNorm1d(2)
    model = nn.Sequential(nn.Linear(2, 2), layer)
    method = methods.NaP(model, gains="project")
    layer.weight.data, layer.bias.data = torch.tensor([2.0, 2.0]), torch.tensor([1.0, 0.0])
    assert joint_factor(layer.weight, layer.bias).item() == pytest.approx(0.4714, abs=1e-4)
    method.step()
    close(layer.weight, [0.9428, 0.9428], atol=1e-4)
    close(layer.bias, [0.4714, 0.0], atol=1e-4)
    assert torch.cat([layer.weight, layer.bias]).norm().item() == pytest.approx(2**0.5)


def test_nap_pulls_gain_and_shift_to_one_and_zero():
    model = nn.Sequential(nn.Linear(3, 2), nn.LayerNorm(2), nn.RMSNorm(2))
    method = methods.NaP(model, decay=0.25)
    model[1].weight.data.fill_(3.0)
    model[1].bias.data.fill_(2.0)
    method.step()
    assert model[1].weight.tolist() == [2.5, 2.5]
    assert model[1].bias.tolist() == [1.5, 1.5]
    assert model[2].weight.tolist() == [1.0, 1.0]


def test_nap_keeps_the_function_where_normalisation_follows():
    model = nn.Sequential(nn.Linear(6, 8, bias=False), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 3)).double()
    method = methods.NaP(model, head=False)
    x = torch.randn(5, 6, dtype=torch.float64)
    norm = model[0].weight.norm().item()
    model[0].weight.data.mul_(7)
    before, weight = model(x), model[0].weight.detach().clone()
    method.step()
    assert model[0].weight.norm().item() == pytest.approx(norm, rel=1e-12)
    assert not torch.equal(model[0].weight, weight)
    torch.testing.assert_close(model(x), before, rtol=1e-3, atol=1e-4)  # LayerNorm's epsilon


@pytest.mark.parametrize(("network", "kinds"), [("mlp", [nn.LayerNorm] * 2), ("cnn", [nn.GroupNorm] * 2 + [nn.LayerNorm])])
def test_a_normalised_network_does_not_change_under_the_projection_of_hidden_layers(network: str, kinds: list[type]):
    plain, x = MODELS[network][0](), torch.randn(4, *MODELS[network][1], dtype=torch.float64)
    model = methods.normalised(plain, x.float()).double()
    assert [type(m) for m in model.modules() if isinstance(m, (nn.LayerNorm, nn.GroupNorm))] == kinds
    layers = affine_layers(model)
    assert [bool(layer.biases) for layer in layers] == [False] * (len(layers) - 1) + [True]
    assert all(layer.biases for layer in affine_layers(plain))
    method = methods.NaP(model, head=False)
    for i, layer in enumerate(layers[:-1]):
        layer.weight.data.mul_(4 + i)
    before = model(x)
    method.step()
    torch.testing.assert_close(model(x), before, rtol=1e-2, atol=1e-3)  # the epsilon of the normalisation layers
    for layer, other in zip(layers, affine_layers(plain), strict=True):
        close(layer.weight, other.weight, 1e-6)


def test_normalising_respects_what_is_normalised_and_the_output():
    model = nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(8, 1), nn.Sigmoid()
    )
    same = methods.normalised(model, torch.randn(2, 1, 4, 4))
    assert [type(module) for module in same.modules()] == [type(module) for module in model.modules()]
    assert list(same.state_dict()) == list(model.state_dict())


def test_activations_that_cannot_be_told_apart_or_seen_are_said():
    relu = nn.ReLU()
    with pytest.raises(ModelError, match="one ReLU is used at 2 places"):
        methods.normalised(nn.Sequential(nn.Linear(2, 2), relu, nn.Linear(2, 2), relu, nn.Linear(2, 2)), torch.randn(3, 2))
    with pytest.raises(ModelError, match="no activation module"):
        methods.normalised(nn.Sequential(nn.Linear(2, 2)), torch.randn(3, 2))


def test_nap_leaves_what_began_at_zero_free():
    layer = nn.Linear(3, 2)
    nn.init.zeros_(layer.weight)
    method = methods.NaP(layer)
    layer.weight.data.fill_(1.0)
    method.step()
    assert layer.weight.tolist() == [[1.0] * 3] * 2


# Lipschitz


def test_operator_norms_of_a_small_matrix():
    layer = with_weight([[1.0, -3.0], [2.0, 0.0]])
    blocks = layer.weight.detach()[None]
    assert operator_norm(blocks, inf).item() == 4
    assert operator_norm(blocks, 1).item() == 3
    method = methods.Lipschitz(layer, bound=100.0)
    assert method._power.norms(method._maps()).item() == pytest.approx(3.2566, abs=1e-4)


@pytest.mark.parametrize(("bound", "factor"), [(2.0, 0.5), (5.0, 1.0)])
def test_a_layer_beyond_its_bound_is_scaled_down_and_one_within_stays(bound: float, factor: float):
    layer = with_weight([[1.0, -3.0], [2.0, 0.0]])
    methods.Lipschitz(layer, bound=bound, p=inf).step()
    assert torch.equal(layer.weight, factor * torch.tensor([[1.0, -3.0], [2.0, 0.0]]))


@pytest.mark.parametrize("p", [1, inf])
def test_norms_of_one_and_infinity_are_numpys_for_linear_layers(p: float):
    layer = nn.Linear(7, 5).double()
    assert operator_norm(layer.weight.detach()[None], p).item() == pytest.approx(
        np.linalg.norm(layer.weight.detach().numpy(), p)
    )


CONVOLUTIONS = {
    "plain": (lambda: nn.Conv2d(2, 3, 3), (2, 6, 5)),
    "stride and padding": (lambda: nn.Conv2d(2, 3, 3, stride=2, padding=1), (2, 6, 5)),
    "same": (lambda: nn.Conv2d(2, 3, 3, padding="same", dilation=2), (2, 6, 5)),
    "circular": (lambda: nn.Conv2d(2, 3, 3, padding=1, padding_mode="circular"), (2, 6, 5)),
    "groups": (lambda: nn.Conv2d(4, 4, 3, groups=2), (4, 5, 5)),
    "one dimension": (lambda: nn.Conv1d(2, 3, 4), (2, 9)),
    "transposed": (lambda: nn.ConvTranspose2d(2, 3, 3, stride=2, padding=1, output_padding=1), (2, 4, 3)),
    "transposed groups": (lambda: nn.ConvTranspose1d(4, 6, 3, groups=2), (4, 5)),
}


def matrix_of(layer: nn.Module, shape: tuple[int, ...]) -> Tensor:
    """The convolution as a matrix: its effect on every unit vector."""
    basis = torch.eye(int(np.prod(shape)), dtype=torch.float64).view(-1, *shape)
    return (layer(basis) - layer(torch.zeros_like(basis))).flatten(1).T.detach()


@pytest.mark.parametrize("kind", CONVOLUTIONS)
def test_a_convolution_is_projected_by_the_norm_of_its_operator(kind: str):
    torch.manual_seed(0)
    build, shape = CONVOLUTIONS[kind]
    layer = build().double()
    method = methods.Lipschitz(layer, torch.randn(2, *shape, dtype=torch.float64), bound=0.25)
    before = layer.weight.detach().clone()
    assert torch.linalg.matrix_norm(matrix_of(layer, shape), 2) > 0.3
    for _ in range(300):
        method.step()
    assert torch.linalg.matrix_norm(matrix_of(layer, shape), 2).item() == pytest.approx(0.25, rel=1e-4)
    torch.testing.assert_close(layer.weight / layer.weight.norm(), before / before.norm())


@pytest.mark.parametrize("kind", CONVOLUTIONS)
def test_operator_map_is_the_layer_without_its_bias(kind: str):
    build, shape = CONVOLUTIONS[kind]
    layer = build().double()
    (affine,) = affine_layers(layer)
    found = operator_map(affine, {layer: torch.Size(shape)})
    x, matrix = torch.randn(1, *shape, dtype=torch.float64), matrix_of(layer, shape)
    close(found.apply(x).flatten(), matrix @ x.flatten(), 1e-10, 1e-12)
    close(found.gram(x).flatten(), matrix.T @ matrix @ x.flatten(), 1e-10, 1e-12)


@pytest.mark.parametrize("p", [1, 2, inf])
def test_bounds_hold_for_every_kind_of_layer(p: float):
    model, shape = double("cnnbn"), MODELS["cnnbn"][1]
    method = methods.Lipschitz(
        model, torch.zeros(2, *shape, dtype=torch.float64), p=p, convolution=0.5, linear=0.4, normalisation=0.3
    )
    grow(model)
    model[1].running_var.fill_(4.0)
    for _ in range(1 if p != 2 else 200):
        method.step()
    for layer, bound in ((model[0], 0.5), (model[9], 0.4), (model[11], 0.4)):
        if p == 2:
            norm = (
                torch.linalg.matrix_norm(layer.weight, 2)
                if isinstance(layer, nn.Linear)
                else torch.linalg.matrix_norm(matrix_of(layer, shape), 2)
            )
        else:
            sums = layer.weight.abs().reshape(*layer.weight.shape[:2], -1).sum(2)
            norm = sums.sum(1 if p == inf else 0).max()
        assert norm.item() == pytest.approx(bound, rel=1e-3)
    for layer in (model[1], model[5]):
        slope = layer.weight.abs() / (layer.running_var + layer.eps).sqrt()
        assert slope.max().item() == pytest.approx(0.3)


def test_input_sizes_are_seen_without_leaving_a_trace():
    model = MODELS["cnnbn"][0]()
    model.insert(0, nn.Dropout(0.5))
    model[3].eval()
    x = torch.randn(2, 3, 18, 18)
    state, before, modes = torch.get_rng_state(), copy.deepcopy(model.state_dict()), [m.training for m in model.modules()]
    sizes = input_sizes(model, x, affine_layers(model))
    assert {tuple(size) for size in sizes.values()} == {(3, 18, 18), (4, 7, 7)}
    assert torch.equal(torch.get_rng_state(), state)
    assert [m.training for m in model.modules()] == modes
    assert not changed(before, model.state_dict())
    assert not any(m._forward_pre_hooks for m in model.modules())


def test_a_convolution_that_never_runs_is_bounded_as_a_matrix():
    class Idle(nn.Linear):
        def __init__(self) -> None:
            super().__init__(4, 4)
            self.idle = nn.Conv2d(4, 4, 3)

    model = Idle()
    method = methods.Lipschitz(model, torch.randn(2, 4), bound=0.25)
    for _ in range(100):
        method.step()
    for weight in (model.weight, model.idle.weight.flatten(1)):
        assert torch.linalg.matrix_norm(weight, 2).item() == pytest.approx(0.25, rel=1e-2)


def test_without_inputs_the_norm_of_a_convolution_is_not_guessed():
    with pytest.raises(InputsError, match="pass example_inputs"):
        methods.Lipschitz(nn.Conv2d(1, 1, 3))
    methods.Lipschitz(nn.Conv2d(1, 1, 3), p=inf).step()
    methods.Lipschitz(nn.Linear(2, 2)).step()


# max-norm, spectral normalisation, weight normalisation


def test_max_norm_shortens_long_rows_only():
    layer = with_weight([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])
    methods.MaxNorm(layer, bound=2.5).step()
    close(layer.weight[0], [1.5, 2.0])
    assert torch.equal(layer.weight[1:], torch.tensor([[0.3, 0.4], [0.0, 0.0]]))


def test_spectral_normalisation_bounds_the_last_hidden_layer():
    model = nn.Sequential(with_weight([[8.0]]), with_weight([[4.0, 0.0], [0.0, 1.0]]), with_weight([[9.0, 9.0]]))
    before = copy.deepcopy(model.state_dict())
    method = methods.SpectralNormalisation(model, bound=2.0)
    for _ in range(20):
        method.step()
    assert changed(before, model.state_dict()) == {"1.weight"}
    close(model[1].weight, [[2.0, 0.0], [0.0, 0.5]], 1e-5)
    model[1].weight.data.mul_(0.5)
    within = model[1].weight.detach().clone()
    method.step()
    assert torch.equal(model[1].weight, within)


def test_spectral_normalisation_takes_named_layers_and_convolutions_as_operators():
    model, shape = double("cnn"), MODELS["cnn"][1]
    before = copy.deepcopy(model.state_dict())
    method = methods.SpectralNormalisation(model, torch.zeros(2, *shape, dtype=torch.float64), bound=0.5, layers=["0", "7"])
    for _ in range(300):
        method.step()
    assert changed(before, model.state_dict()) == {"0.weight", "7.weight"}
    assert torch.linalg.matrix_norm(matrix_of(model[0], shape), 2).item() == pytest.approx(0.5, rel=1e-3)
    with pytest.raises(OptionError, match=r"names of trained layers \(0, 3, 7, 9\), found 7, 8"):
        methods.SpectralNormalisation(model, torch.zeros(2, *shape), layers=["7", "8"])


def test_weight_normalisation_brings_rows_to_length_one_and_skips_zeros():
    layer = with_weight([[3.0, 4.0], [0.0, 2.0], [0.0, 0.0]])
    methods.WeightNormalisation(layer, every=1, head=True).step()
    close(layer.weight, [[0.6, 0.8], [0.0, 1.0], [0.0, 0.0]])


ROWS = {"max-norm": {"bound": 0.1}, "weight-normalisation": {"every": 1, "head": True}}


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("kind", CONVOLUTIONS)
def test_rows_are_the_weights_that_enter_one_output(name: str, kind: str):
    layer = CONVOLUTIONS[kind][0]().double()
    before = layer.weight.detach().clone()
    methods.build(name, layer, **ROWS[name]).step()
    target, groups = ROWS[name].get("bound", 1.0), layer.groups
    for output in range(layer.out_channels):
        if layer.transposed:
            inputs, outputs = layer.in_channels // groups, layer.out_channels // groups
            group = output // outputs
            row = (slice(group * inputs, (group + 1) * inputs), output % outputs)
        else:
            row = output
        close(layer.weight[row], target * before[row] / before[row].norm(), 1e-10, 1e-12)


# all of them

SETTINGS = {
    "weight-rescaling": {},
    "weight-clipping": {"bound": 0.5},
    "nap": {"gains": "project"},
    "lipschitz": {"bound": 0.4, "p": inf},
    "max-norm": {"bound": 0.2},
    "weight-normalisation": {"every": 1},
}


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_a_second_projection_finds_nothing_to_do(name: str, layout: torch.memory_format):
    model = double("cnnbn").to(memory_format=layout)
    method = methods.build(name, model, **SETTINGS[name])
    grow(model)
    before = copy.deepcopy(model.state_dict())
    method.step()
    once = copy.deepcopy(model.state_dict())
    assert changed(before, once)
    method.step()
    for key, tensor in model.state_dict().items():
        torch.testing.assert_close(tensor, once[key], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", [*SETTINGS, "spectral-normalisation"])
def test_a_16_bit_network_is_projected_too(name: str):
    model = MODELS["mlp"][0]().to(torch.bfloat16)
    method = methods.build(name, model, **SETTINGS.get(name, {"bound": 0.5}))
    grow(model)
    before = copy.deepcopy(model.state_dict())
    method.step()
    assert changed(before, model.state_dict())
    assert all(p.dtype is torch.bfloat16 and p.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("name", [*SETTINGS, "spectral-normalisation"])
def test_frozen_weights_stay(name: str):
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4))
    for layer in (model[0], model[1]):
        for p in layer.parameters():
            p.requires_grad_(False)
    method = methods.build(name, model, **SETTINGS.get(name, {"bound": 0.5}))
    grow(model)
    before = copy.deepcopy(model.state_dict())
    method.step()
    assert changed(before, model.state_dict()) <= {"2.weight", "2.bias"}


@pytest.mark.parametrize(
    ("name", "option"),
    [("weight-clipping", "bound"), ("max-norm", "bound"), ("lipschitz", "bound"), ("spectral-normalisation", "bound"),
     ("nap", "every"), ("weight-rescaling", "every"), ("weight-normalisation", "every"), ("nap", "decay"), ("lipschitz", "p")],
)  # fmt: skip
@pytest.mark.parametrize("value", [-1, float("nan"), True, "a"])
def test_options_out_of_range_are_refused(name: str, option: str, value: object):
    with pytest.raises(OptionError, match=f"{option}.* must be .*found {value!r}"):
        methods.build(name, nn.Linear(2, 2), **{option: value})


def test_choices_are_checked():
    with pytest.raises(OptionError, match="per must be 'layer' or 'channel', found 'row'"):
        methods.WeightRescaling(nn.Linear(2, 2), per="row")
    with pytest.raises(OptionError, match='0 with gains="project"'):
        methods.NaP(nn.Linear(2, 2), gains="project", decay=0.1)
    with pytest.raises(OptionError, match="every must be a number of steps"):
        methods.NaP(nn.Linear(2, 2), every=1.5)
